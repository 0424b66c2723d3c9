// Memory of the factors and of the data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace psgld {

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};

// An array aligned for any vector, with a vector's worth of readable slack behind it.
template <class T>
class Aligned {
 public:
  Aligned() = default;
  explicit Aligned(size_t n, T fill = T{}) : size_(n) {
    // Large arrays on huge pages: the inner factor is hit at random, and small pages would overflow the TLB.
    constexpr size_t huge = size_t{1} << 21;
    const size_t bytes = n * sizeof(T) + 512, align = bytes >= huge ? huge : 64;
    data_.reset(static_cast<T*>(std::aligned_alloc(align, (bytes + align - 1) / align * align)));
    if (!data_) throw std::bad_alloc();
#if defined(__linux__)
    if (align == huge) madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
    std::fill_n(data_.get(), n + 256 / sizeof(T), fill);
  }
  T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  std::unique_ptr<T, FreeDeleter> data_;
  size_t size_ = 0;
};

}  // namespace psgld
