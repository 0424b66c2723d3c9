// Lanes multiplied, picked, counted and compared: what the vector extensions of the compilers do not say.
#pragma once

#include "simd/simd.hpp"

namespace psgld::PSGLD_ISA {

using VecD = Vec<double>;
using Flags = Vec<int64_t>;                                            // -1 where it holds, else 0
typedef uint32_t Half __attribute__((vector_size(kVectorBytes / 2)));  // a word for each lane of VecD

// Products of the low halves of 64-bit lanes.
inline VecU64 mul32(VecU64 a, uint32_t b) {
#if defined(__AVX512F__)
  return (VecU64)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  return (VecU64)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#else
  return (a & 0xffffffffu) * static_cast<uint64_t>(b);
#endif
}

// Chosen lanes of v in every fourth lane, 0 elsewhere.
inline VecU permute_to_fourths(VecU v, VecI index) {
#if defined(__AVX512F__)
  return (VecU)_mm512_maskz_permutexvar_epi32(0x1111, (__m512i)index, (__m512i)v);
#else
  constexpr auto fourth = []<int... I>(std::integer_sequence<int, I...>) {
    return VecU{(I % 4 == 0 ? ~0u : 0u)...};
  }(std::make_integer_sequence<int, kLanes<uint32_t> >{});
  return permute(v, index) & fourth;
#endif
}

// n + (x < c).
inline VecI count_below(VecI n, VecI x, VecI c) {
#if defined(__AVX512F__)
  const __mmask16 below = _mm512_cmplt_epi32_mask((__m512i)x, (__m512i)c);
  return (VecI)_mm512_mask_add_epi32((__m512i)n, below, (__m512i)n, _mm512_set1_epi32(1));
#else
  return n - (VecI)(x < c);
#endif
}

// Whether a lane is not 0.
inline bool any_lane(VecI v) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#elif defined(__AVX2__)
  return !_mm256_testz_si256((__m256i)v, (__m256i)v);
#else
  int32_t any = 0;
  for (int l = 0; l < kLanes<int32_t>; ++l) any |= v[l];
  return any != 0;
#endif
}

// A bit for each lane.
inline uint32_t bits(Flags flags) {
#if defined(__AVX512F__)
  return _mm512_movepi64_mask((__m512i)flags);
#elif defined(__AVX2__)
  return static_cast<uint32_t>(_mm256_movemask_pd((__m256d)flags));
#else
  uint32_t out = 0;
  for (int l = 0; l < kLanes<int64_t>; ++l) out |= static_cast<uint32_t>(flags[l] & 1) << l;
  return out;
#endif
}

// table[index] in each lane.
inline VecD look_up(const double* table, Half index) {
#if defined(__AVX512F__)
  return (VecD)_mm512_i32gather_pd((__m256i)index, table, 8);
#elif defined(__AVX2__)
  return (VecD)_mm256_i32gather_pd(table, (__m128i)index, 8);
#else
  VecD out;
  for (int l = 0; l < kLanes<double>; ++l) out[l] = table[index[l]];
  return out;
#endif
}

}  // namespace psgld::PSGLD_ISA
