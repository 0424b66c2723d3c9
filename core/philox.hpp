// Counter-based noise (Philox4x32-10, Salmon et al. 2011, and Box–Muller): the normal of coefficient k of row
// i of a factor at iteration t is a function of (key, i, factor, t, k) and of nothing else, whoever computes
// it.
//
//   counter = (row, factor << 31 | k / 4, t mod 2^32, t / 2^32),   four words out -> the normals of k, k+1,
//   k+2, k+3
#pragma once

#include "simd.hpp"

namespace psgld::PSGLD_ISA {

constexpr int kNoiseRows = kLanes<uint32_t>;  // rows whose noise is made together

// One round on the even (or odd) lanes, held as the low halves of 64-bit lanes: what stands in the high
// halves is never read, so nothing needs masking.
struct PhiloxState {
  VecU64 x0, x1, x2, x3;
};

inline VecU64 mul32(VecU64 a, uint32_t b) {
#if defined(__AVX512F__)
  return (VecU64)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  return (VecU64)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#else
  return (a & 0xffffffffu) * static_cast<uint64_t>(b);
#endif
}

// The keys of the ten rounds, read from memory in the loop: making them there costs as much as the rounds.
struct RoundKeys {
  uint64_t k0[10], k1[10];
  explicit RoundKeys(uint64_t key) {
    uint32_t a = static_cast<uint32_t>(key), b = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, a += 0x9E3779B9u, b += 0xBB67AE85u) {
      k0[round] = a;
      k1[round] = b;
    }
  }
};

// The states are independent: side by side, the latency of one hides behind the others.
template <int N>
inline void philox_rounds(PhiloxState (&s)[N], const RoundKeys& keys) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      VecU64 a = mul32(s[n].x0, 0xD2511F53u), b = mul32(s[n].x2, 0xCD9E8D57u);
      s[n].x0 = (b >> 32) ^ s[n].x1 ^ keys.k0[round];
      s[n].x1 = b;
      s[n].x2 = (a >> 32) ^ s[n].x3 ^ keys.k1[round];
      s[n].x3 = a;
    }
}

inline VecU join(VecU64 even, VecU64 odd) { return (VecU)((even & 0xffffffffu) | (odd << 32)); }

// -2 ln (f / 2^31) for 1 <= f <= 2^31: the bits of f, read as a number, are log2 f but for what the mantissa
// 2 + t bends. It, and sin and cos on the half circle, are minimax polynomials with errors below 1e-6, which
// is all that noise needs.
inline VecF minus_two_log(VecF f) {
  const VecI bits = (VecI)f, mantissa = (bits & 0x007fffff) | 0x3f800000;
  const VecF t = (VecF)mantissa - 2.0f, line = to_float(bits - 0x4f000000);  // 0 where f = 2^31
  VecF p = splat(-0.020534664f);
  p = p * t - 0.036925185f;
  p = p * t - 0.054854959f;
  p = p * t + 0.0093133152f;
  p = p * t - 0.089222513f;
  p = p * t + 0.24926274f;
  p = p * t + 0.38626340f;
  return p * t + line * (-1.38629436f / 8388608);
}

inline void sincos_half_turn(VecF x, VecF& s, VecF& c) {  // -pi/2 <= x <= pi/2
  const VecF z = x * x;
  VecF sp = splat(2.5904881e-6f);
  sp = sp * z - 1.9800897e-4f;
  sp = sp * z + 8.3328998e-3f;
  sp = sp * z - 1.6666648e-1f;
  s = sp * (z * x) + x;
  VecF cp = splat(2.3194386e-5f);
  cp = cp * z - 1.3855927e-3f;
  cp = cp * z + 4.1663989e-2f;
  cp = cp * z - 4.9999932e-1f;
  c = cp * z + 1.0f;
}

// Two normals from two words. The first, as a signed odd integer, gives the radius (up to 6.6) and a sign;
// the second an angle on the right half circle: a point and its reflection are equally likely.
inline void box_muller(VecU a, VecU b, VecF& z0, VecF& z1) {
  const VecF f = to_float((VecI)(a | 1u));
  const VecF w = vmax(minus_two_log(vabs(f)), splat(0.0f));
  const VecF r = (VecF)((VecU)vsqrt<float>(w) ^ (a & 0x80000000u));
  VecF s, c;
  sincos_half_turn(to_float((VecI)b) * (1.57079633f / 2147483648.0f), s, c);
  z0 = r * c;
  z1 = r * s;
}

// Four words for each of L counters.
inline void philox(VecU row, VecU part, uint64_t t, const RoundKeys& keys, VecU* words) {
  VecU64 r = (VecU64)row, p = (VecU64)part;
  VecU64 tl = VecU64{} + (t & 0xffffffffu), th = VecU64{} + (t >> 32);
  PhiloxState s[2] = {{r, p, tl, th}, {r >> 32, p >> 32, tl, th}};
  philox_rounds(s, keys);
  words[0] = join(s[0].x0, s[1].x0);
  words[1] = join(s[0].x1, s[1].x1);
  words[2] = join(s[0].x2, s[1].x2);
  words[3] = join(s[0].x3, s[1].x3);
}

template <bool high, int... I>
inline VecF interleave(VecF x, VecF y, std::integer_sequence<int, I...>) {
  constexpr int L = kLanes<float>;
  return shuffle(x, y, std::integer_sequence<int, (I / 2 + (I % 2) * L + (high ? L / 2 : 0))...>{});
}

// The four normals of each of L counters, in the order of the counters: 4 L consecutive floats.
inline void normals(const VecU* words, float* out) {
  constexpr int L = kLanes<float>;
  constexpr auto lanes = std::make_integer_sequence<int, L>{};
  VecF z0, z1, z2, z3;
  box_muller(words[0], words[1], z0, z1);
  box_muller(words[2], words[3], z2, z3);
  VecF a0 = interleave<false>(z0, z2, lanes), a1 = interleave<true>(z0, z2, lanes);
  VecF b0 = interleave<false>(z1, z3, lanes), b1 = interleave<true>(z1, z3, lanes);
  store(out, interleave<false>(a0, b0, lanes));
  store(out + L, interleave<true>(a0, b0, lanes));
  store(out + 2 * L, interleave<false>(a1, b1, lanes));
  store(out + 3 * L, interleave<true>(a1, b1, lanes));
}

// Which row (of kNoiseRows) and which quartet of components each lane of each vector works on, for a given
// number of quartets a row: the rows of a group are laid end to end over the lanes.
struct NoisePattern {
  static constexpr int kMaxQuartets = 256;
  int quartets = 0;
  alignas(64) int32_t row[kMaxQuartets * kNoiseRows];
  alignas(64) int32_t part[kMaxQuartets * kNoiseRows];

  void prepare(int n) {
    if (quartets == n) return;
    quartets = n;
    for (int q = 0; q < n * kNoiseRows; ++q) {
      row[q] = q / n;
      part[q] = q % n;
    }
  }
};

// Noise of kNoiseRows rows with original indices `ids`, row r at out + 4 * quartets * r.
inline void noise_rows(const NoisePattern& pattern, const uint32_t* ids, uint32_t factor, uint64_t t,
                       uint64_t key, float* out) {
  const RoundKeys keys(key);
  asm volatile("" : : "r"(&keys) : "memory");  // keep them in memory
  VecU rows = load_unaligned(ids);
  VecU tag = splat<uint32_t>(factor << 31);
  // Integers, then floats, a few vectors at a time: short loops of like instructions keep the processor
  // fuller.
  constexpr int kGroup = 8;
  VecU words[4 * kGroup];
  for (int m = 0; m < pattern.quartets; m += kGroup) {
    const int n = pattern.quartets - m < kGroup ? pattern.quartets - m : kGroup;
    for (int g = 0; g < n; ++g) {
      const int at = (m + g) * kNoiseRows;
      philox(permute(rows, load(pattern.row + at)), (VecU)load(pattern.part + at) | tag, t, keys,
             words + 4 * g);
    }
    for (int g = 0; g < n; ++g) normals(words + 4 * g, out + 4 * kNoiseRows * (m + g));
  }
}

}  // namespace psgld::PSGLD_ISA
