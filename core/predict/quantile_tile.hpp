// New observations and their quantiles at kTilePairs pairs side by side: the lanes of a vector are pairs, its
// rows in memory the draws. So nothing has to be turned round, and sorting is a fixed network of exchanges.
#pragma once

#include <algorithm>

#include "predict/kernels.hpp"
#include "random/normals.hpp"
#include "random/philox.hpp"

namespace psgld::PSGLD_ISA {

// The four words of each of L counters.
inline void philox_lanes(VecU c0, VecU c1, VecU c2, VecU c3, const RoundKeys& keys, VecU* words) {
  const VecU64 a = (VecU64)c0, b = (VecU64)c1, c = (VecU64)c2, d = (VecU64)c3;
  PhiloxState s[2] = {{a, b, c, d}, {a >> 32, b >> 32, c >> 32, d >> 32}};
  philox_rounds(s, keys);
  words[0] = join(s[0].x0, s[1].x0);
  words[1] = join(s[0].x1, s[1].x1);
  words[2] = join(s[0].x2, s[1].x2);
  words[3] = join(s[0].x3, s[1].x3);
}

// Rows and columns of n <= kTilePairs pairs, as lanes.
struct CellLanes {
  alignas(64) uint32_t row[kTilePairs] = {}, column[kTilePairs] = {};
  CellLanes(const int64_t* rows, const int64_t* columns, int n) {
    for (int q = 0; q < n; ++q) {
      row[q] = static_cast<uint32_t>(rows[q]);
      column[q] = static_cast<uint32_t>(columns[q]);
    }
  }
};

// What the streams of scalar_stream.hpp begin with, at n pairs in one draw: word w of pair q at out[w][q].
inline void first_words(const int64_t* rows, const int64_t* columns, int n, uint32_t draw, uint64_t seed,
                        int number, uint32_t (*out)[kTilePairs]) {
  constexpr int L = kLanes<uint32_t>;
  const RoundKeys keys(seed);
  const CellLanes cells(rows, columns, n);
  for (int first = 0; first < n; first += L)
    for (int block = 0; block < number / 4; ++block) {
      VecU words[4];
      philox_lanes(splat(static_cast<uint32_t>(block)), load(cells.row + first), load(cells.column + first),
                   splat(draw), keys, words);
      for (int w = 0; w < 4; ++w) store(out[4 * block + w] + first, words[w]);
    }
}

// x_s += sqrt(phi_s) z at n <= kTilePairs pairs, x draws x stride. The normals are those of `noise` with the
// quartets of draws as rows and the cell as iteration.
template <class T>
void add_noise(const int64_t* rows, const int64_t* columns, int n, int64_t draws, const double* phi,
               uint64_t seed, T* x, int64_t stride) {
  constexpr int L = kLanes<uint32_t>;
  const RoundKeys keys(seed);
  const CellLanes cells(rows, columns, n);
  for (int first = 0; first < n; first += L) {
    const int lanes = std::min(L, n - first);
    for (int64_t s = 0; s < draws; s += 4) {
      VecU words[4];
      VecF z[4];
      philox_lanes(splat(static_cast<uint32_t>(s / 4)), splat(0x80000000u), load(cells.row + first),
                   load(cells.column + first), keys, words);
      box_muller(words[0], words[1], z[0], z[1]);
      box_muller(words[2], words[3], z[2], z[3]);
      for (int64_t m = 0; m < std::min<int64_t>(4, draws - s); ++m) {
        T* at = x + (s + m) * stride + first;
        const T sd = static_cast<T>(std::sqrt(phi[s + m]));
        alignas(64) float normal[L];
        store(normal, z[m]);
        for (int l = 0; l < lanes; ++l) at[l] += sd * normal[l];
      }
    }
  }
}

// The n values of one lane in ascending order, in all lanes at once: Batcher's merge exchange (Knuth, volume
// 3, 5.2.2 M), n (log n)^2 / 4 exchanges whatever the values are. x: n x kTilePairs, aligned.
template <class T>
void sort_lanes(T* x, int64_t n) {
  constexpr int L = kLanes<T>;
  int64_t top = 1;
  while (2 * top < n) top *= 2;
  for (int first = 0; first < kTilePairs; first += L) {
    T* lane = x + first;
    auto exchange = [&](int64_t a, int64_t b) {
      T *low = lane + a * kTilePairs, *high = lane + b * kTilePairs;
      const Vec<T> u = load(low), v = load(high);
      const auto swap = v < u;
      store(low, swap ? v : u);
      store(high, swap ? u : v);
    };
    for (int64_t p = top; p > 0; p /= 2) {
      int64_t q = top, r = 0, d = p;
      for (;;) {
        // Places whose bit p equals r come in runs of p.
        for (int64_t run = r; run < n - d; run += 2 * p)
          for (int64_t i = run; i < std::min(run + p, n - d); ++i) exchange(i, i + d);
        if (q == p) break;
        d = q - p;
        q /= 2;
        r = p;
      }
    }
  }
}

}  // namespace psgld::PSGLD_ISA
