// Working memory of the kernels.
#pragma once

#include <cstddef>
#include <cstring>

#include "common/aligned.hpp"

namespace psgld::PSGLD_ISA {

// Grows, never shrinks, aligned for any vector.
class Buffer {
 public:
  template <class T>
  T* get(size_t n) {
    const size_t bytes = (n * sizeof(T) + 127) / 64 * 64;
    if (bytes > capacity_) {
      capacity_ = 0;
      data_.reset();  // before the larger one is allocated
      data_ = aligned_array<std::byte>(bytes);
      capacity_ = bytes;
      std::memset(data_.get(), 0, bytes);
    }
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  AlignedArray<std::byte> data_;
  size_t capacity_ = 0;
};

}  // namespace psgld::PSGLD_ISA
