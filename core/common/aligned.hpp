// Memory aligned for any vector: of the factors, the data, and the kernels.
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

template <class T>
using AlignedArray = std::unique_ptr<T[], FreeDeleter>;

// n elements without values, aligned to cache lines or more.
template <class T>
AlignedArray<T> aligned_array(size_t n, size_t align = 64) {
  AlignedArray<T> array(static_cast<T*>(
      std::aligned_alloc(align, std::max(align, (n * sizeof(T) + align - 1) / align * align))));
  if (!array) throw std::bad_alloc();
  return array;
}

// An array aligned for any vector, with a vector's worth of readable slack behind it.
template <class T>
class Aligned {
 public:
  Aligned() = default;
  explicit Aligned(size_t n, T fill = T{}) : size_(n) {
    // Large arrays on huge pages: the inner factor is hit at random, and small pages would overflow the TLB.
    constexpr size_t huge = size_t{1} << 21;
    const size_t bytes = n * sizeof(T) + 512, align = bytes >= huge ? huge : 64;
    data_ = aligned_array<T>(n + 512 / sizeof(T), align);
#if defined(__linux__)
    if (align == huge) madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
    std::fill_n(data_.get(), n + 256 / sizeof(T), fill);
  }
  T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  AlignedArray<T> data_;
  size_t size_ = 0;
};

}  // namespace psgld
