// Rounds of AES by the processor's instructions for them: on one block at a time (AES), or on as many as a
// vector holds (VAES).
#pragma once

#include "simd/simd.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_AES)
#include <arm_neon.h>
#endif

namespace psgld::PSGLD_ISA {

// Rounds 1, 2, ... of n vectors of blocks, n a multiple of four; key[r] is that of round r, in every block of
// a vector. The last round mixes no columns.
#if defined(__x86_64__)
#define PSGLD_HAS_AES
inline bool has_aes() { return __builtin_cpu_supports("aes"); }

template <int rounds>
__attribute__((target("aes"))) inline void aes_rounds(VecU* x, int n, const VecU* key) {
  constexpr int side = 4;  // blocks at once, to hide the latency of a round
  auto* block = reinterpret_cast<__m128i*>(x);
  for (int b = 0; b < n * kLanes<uint32_t> / 4; b += side) {
    __m128i s[side];
    for (int q = 0; q < side; ++q) s[q] = block[b + q];
    for (int round = 1; round < rounds; ++round)
      for (int q = 0; q < side; ++q)
        s[q] = _mm_aesenc_si128(s[q], *reinterpret_cast<const __m128i*>(&key[round]));
    for (int q = 0; q < side; ++q)
      block[b + q] = _mm_aesenclast_si128(s[q], *reinterpret_cast<const __m128i*>(&key[rounds]));
  }
}
#elif defined(__ARM_FEATURE_AES)
#define PSGLD_HAS_AES
inline bool has_aes() { return true; }

template <int rounds>
inline void aes_rounds(VecU* x, int n, const VecU* key) {
  for (int v = 0; v < n; ++v) {
    auto s = reinterpret_cast<uint8x16_t>(x[v]);
    for (int round = 1; round <= rounds; ++round) {
      s = vaeseq_u8(s, vdupq_n_u8(0));  // SubBytes and ShiftRows
      if (round < rounds) s = vaesmcq_u8(s);
      s = veorq_u8(s, reinterpret_cast<uint8x16_t>(key[round]));
    }
    x[v] = reinterpret_cast<VecU>(s);
  }
}
#endif

#if defined(__AVX512F__) || defined(__AVX2__)
#define PSGLD_HAS_VAES
#if defined(__AVX512F__)
#define PSGLD_AES(name) _mm512_##name##_epi128
using AesVector = __m512i;
#else
#define PSGLD_AES(name) _mm256_##name##_epi128
using AesVector = __m256i;
#endif
inline bool has_vaes() { return __builtin_cpu_supports("vaes"); }

template <int rounds>
__attribute__((target("vaes"))) inline void vaes_rounds(VecU* x, int n, const VecU* key) {
  constexpr int side = 4;
  for (int v = 0; v < n; v += side) {
    AesVector s[side];
    for (int q = 0; q < side; ++q) s[q] = (AesVector)x[v + q];
#pragma GCC unroll 6
    for (int round = 1; round < rounds; ++round)
      for (int q = 0; q < side; ++q) s[q] = PSGLD_AES(aesenc)(s[q], (AesVector)key[round]);
    for (int q = 0; q < side; ++q) x[v + q] = (VecU)PSGLD_AES(aesenclast)(s[q], (AesVector)key[rounds]);
  }
}
#undef PSGLD_AES
#endif

}  // namespace psgld::PSGLD_ISA
