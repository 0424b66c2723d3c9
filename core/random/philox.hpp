// Philox4x32-10 (Salmon et al. 2011): four words from a counter of four and a key of two.
#pragma once

#include "simd/lanes.hpp"

namespace psgld::PSGLD_ISA {

// One round on the even (or odd) lanes, held as the low halves of 64-bit lanes: what stands in the high
// halves is never read, so nothing needs masking.
struct PhiloxState {
  VecU64 x0, x1, x2, x3;
};

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

}  // namespace psgld::PSGLD_ISA
