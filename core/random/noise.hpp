// Counter-based noise: the normal of coefficient k of row i of a factor at iteration t is a function of
// (key, i, factor, t, k) and of nothing else, whoever computes it.
//
//   counter = (row, factor << 31 | k / 4, t mod 2^32, t / 2^32),   four words out -> the normals of k, k+1,
//   k+2, k+3
#pragma once

#include "common/kernels.hpp"
#include "random/ars.hpp"
#include "random/normals.hpp"
#include "simd/lanes.hpp"

namespace psgld::PSGLD_ISA {

constexpr int kNoiseRows = kLanes<uint32_t>;  // rows whose noise is made together

// The counters of kNoiseRows rows for a given number of quartets a row, but for what changes: the rows are
// laid end to end, four lanes a counter.
struct NoisePattern {
  static constexpr int kMaxQuartets = kMostComponents / 4;
  int quartets = 0;
  const ArsRounds rounds = ars_rounds();
  alignas(64) int32_t row[4 * kMaxQuartets * kNoiseRows];    // which of the rows
  alignas(64) uint32_t part[4 * kMaxQuartets * kNoiseRows];  // the quartet, in the second lane of four

  void prepare(int n) {
    if (quartets == n) return;
    quartets = n;
    for (int q = 0; q < n * kNoiseRows; ++q)
      for (int lane = 0; lane < 4; ++lane) {
        row[4 * q + lane] = q / n;
        part[4 * q + lane] = lane == 1 ? q % n : 0;
      }
  }
};

// 2 L normals from two vectors of words, in their order: words 2n and 2n + 1 give normals 2n and 2n + 1.
template <int... I>
inline void normals(VecU x, VecU y, float* out, std::integer_sequence<int, I...>) {
  constexpr int L = kLanes<float>;
  VecF z0, z1;
  box_muller(shuffle(x, y, std::integer_sequence<int, (2 * I)...>{}),
             shuffle(x, y, std::integer_sequence<int, (2 * I + 1)...>{}), z0, z1);
  store(out, shuffle(z0, z1, std::integer_sequence<int, (I / 2 + I % 2 * L)...>{}));
  store(out + L, shuffle(z0, z1, std::integer_sequence<int, (I / 2 + I % 2 * L + L / 2)...>{}));
}

struct Nothing {
  void operator()() const {}
};

// Noise of kNoiseRows rows with original indices `ids`, row r at out + 4 * quartets * r. `meanwhile` is
// called twice a quartet.
template <class Meanwhile = Nothing>
[[gnu::noinline]] inline void noise_rows(const NoisePattern& pattern, const uint32_t* ids, uint32_t factor,
                                         uint64_t t, const ArsKeys& keys, float* out,
                                         Meanwhile&& meanwhile = {}) {
  constexpr int L = kLanes<uint32_t>;
  const VecU rows = load_unaligned(ids);
  VecU rest = keys.round[0];
  for (int l = 0; l < L; l += 4) {
    rest[l + 1] ^= factor << 31;
    rest[l + 2] ^= static_cast<uint32_t>(t);
    rest[l + 3] ^= static_cast<uint32_t>(t >> 32);
  }
  // Counters, words, normals, a few vectors at a time: short loops of like instructions keep the processor
  // fuller.
  constexpr int kGroup = 16;
  VecU words[kGroup];
  for (int m = 0; m < 4 * pattern.quartets; m += kGroup) {
    const int n = 4 * pattern.quartets - m < kGroup ? 4 * pattern.quartets - m : kGroup;
    for (int v = 0; v < n; ++v) {
      const int at = (m + v) * L;
      words[v] = permute_to_fourths(rows, load(pattern.row + at)) ^ load(pattern.part + at) ^ rest;
    }
    pattern.rounds(words, n, keys);
    for (int v = 0; v < n; v += 2) {
      meanwhile();
      normals(words[v], words[v + 1], out + L * (m + v), std::make_integer_sequence<int, L>{});
    }
  }
}

}  // namespace psgld::PSGLD_ISA
