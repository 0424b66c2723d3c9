// Vectors of floats quantised to 16-bit integers, and their products (VNNI); parts of vectors. AVX-512 only.
#pragma once

#include "simd/simd.hpp"

#if defined(__AVX512F__)
#define PSGLD_HAS_INT16

namespace psgld::PSGLD_ISA {

using VecPairs = __m512i;  // a pair of 16-bit integers in each 32-bit lane

#if defined(__clang__)  // wants to know which instructions to expect
#define PSGLD_VNNI __attribute__((target("avx512vnni")))
#else
#define PSGLD_VNNI
#endif

inline bool has_int16_products() { return __builtin_cpu_supports("avx512vnni"); }

inline VecPairs no_pairs() { return _mm512_setzero_si512(); }
inline VecPairs load_pairs(const int32_t* p) { return _mm512_load_si512(p); }  // aligned to the vector
inline VecPairs splat_pair(int32_t pair) { return _mm512_set1_epi32(pair); }
inline VecF sums_of_pairs(VecPairs acc) { return (VecF)_mm512_cvtepi32_ps(acc); }

// acc += x y, pairs of products added up. (Written so: of the intrinsic GCC makes copies, and spills them.)
[[gnu::always_inline]] PSGLD_VNNI inline void add_products(VecPairs& acc, VecPairs x, VecPairs y) {
  asm("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y));
}

// Sixteen floats rounded to 16-bit integers; `to` is aligned to them.
inline void store_rounded(int32_t* to, VecF v) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32((__m512)v)));
}

// The first n lanes of a vector, n <= 16 or more.
class FirstLanes {
 public:
  explicit FirstLanes(int n) : mask_(static_cast<__mmask16>(n >= 16 ? 0xffff : (1 << n) - 1)) {}
  VecF load(const float* p) const { return (VecF)_mm512_maskz_loadu_ps(mask_, p); }  // 0 elsewhere
  void store(float* p, VecF v) const { _mm512_mask_storeu_ps(p, mask_, (__m512)v); }
  VecF of(VecF v) const { return (VecF)_mm512_maskz_mov_ps(mask_, (__m512)v); }  // 0 elsewhere

 private:
  __mmask16 mask_;
};

// Whether all lanes are at most `most`; a NaN is not.
inline bool all_at_most(VecF v, float most) {
  return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(most), _CMP_LE_OQ) == 0xffff;
}

inline float largest_lane(VecF v) { return _mm512_reduce_max_ps((__m512)v); }

}  // namespace psgld::PSGLD_ISA
#endif
