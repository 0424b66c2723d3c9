// Copies past the caches, where the processor can: of what nobody reads soon.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace psgld {

// Whether rows of n numbers, the first of them here, begin and end with a cache line.
template <class T>
bool whole_lines(const T* first, size_t n) {
  return reinterpret_cast<uintptr_t>(first) % 64 == 0 && n * sizeof(T) % 64 == 0;
}

template <class T>
void stream(const T* from, size_t n, T* to) {
#if defined(__x86_64__)
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0 && n * sizeof(T) % 16 == 0) {
    for (size_t q = 0; q < n; q += 16 / sizeof(T))
      _mm_stream_ps(reinterpret_cast<float*>(to + q), _mm_loadu_ps(reinterpret_cast<const float*>(from + q)));
    return;
  }
#endif
  std::copy_n(from, n, to);
}

// Streamed copies are not ordered with other writes: nobody may be told of them before this.
inline void end_stream() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace psgld
