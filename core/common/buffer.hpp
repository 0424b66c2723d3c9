// Working memory of the kernels.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace psgld::PSGLD_ISA {

// Grows, never shrinks, aligned for any vector.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }

  template <class T>
  T* get(size_t n) {
    const size_t bytes = (n * sizeof(T) + 127) / 64 * 64;
    if (bytes > capacity_) {
      std::free(std::exchange(data_, nullptr));
      capacity_ = 0;
      data_ = std::aligned_alloc(64, bytes);
      if (!data_) throw std::bad_alloc();
      capacity_ = bytes;
      std::memset(data_, 0, bytes);
    }
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace psgld::PSGLD_ISA
