// A tile of rows x columns of mu, draw after draw: a small matrix product whose result goes from the
// registers into running sums, so that no draw of mu is ever written down.
#pragma once

#include <algorithm>
#include <cstring>

#include "gemm.hpp"
#include "scratch.hpp"

namespace psgld::PSGLD_ISA {

// Rows of x, `stride` apart, as columns of out (components x leading); what is beyond becomes 0.
template <class T>
inline void pack_columns(const T* x, int rows, int components, T* padded, int padded_stride, T* out,
                         int leading) {
  for (int r = 0; r < rows; ++r)
    std::memcpy(padded + static_cast<size_t>(r) * padded_stride, x + static_cast<size_t>(r) * components,
                sizeof(T) * components);
  transpose(padded, leading, padded_stride, out, leading);
}

// The sums of one draw, added up from the registers. Away from the first draw, so that nothing cancels.
template <class T, ScoreKind kind>
inline void add_draw(const T* a, const T* b, int components, int rows, int width, const T* row_add,
                     const T* col_add, bool first, T threshold, T* start, T* sum, T* second) {
  constexpr int L = kLanes<T>, C = 2;
  const Vec<T> one = splat<T>(1), limit = splat(threshold);
  for (int j = 0; j < width; j += C * L)
    for (int r = 0; r < rows; r += kTileRows) {
      Vec<T> mu[kTileRows][C];
#pragma GCC unroll 8
      for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) mu[i][c] = splat(row_add[r + i]) + load(col_add + j + c * L);
      gemm_tile<T, C, false>(a + static_cast<size_t>(r) * components, components, b + j, width, components,
                             mu);
#pragma GCC unroll 8
      for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 2
        for (int c = 0; c < C; ++c) {
          const size_t at = static_cast<size_t>(r + i) * width + j + c * L;
          if (first) {
            store(start + at, mu[i][c]);
            store(sum + at, Vec<T>{});
            if (kind == ScoreKind::sd) store(second + at, Vec<T>{});
            if (kind == ScoreKind::above) store(second + at, mu[i][c] > limit ? one : Vec<T>{});
            continue;
          }
          const Vec<T> away = mu[i][c] - load(start + at);
          store(sum + at, load(sum + at) + away);
          if (kind == ScoreKind::sd) store(second + at, load(second + at) + away * away);
          if (kind == ScoreKind::above)
            store(second + at, load(second + at) + (mu[i][c] > limit ? one : Vec<T>{}));
        }
    }
}

template <class T, ScoreKind kind>
void score_tile(const ScoreTile<T>& t, T* mean, T* second) {
  constexpr int L = kLanes<T>;
  const int k = t.components;
  const int rows = (t.n_rows + kTileRows - 1) / kTileRows * kTileRows;
  const int width = (t.n_columns + 2 * L - 1) / (2 * L) * (2 * L), stride = (k + L - 1) / L * L;
  Buffer buffers[8];
  T* a = buffers[0].get<T>(static_cast<size_t>(rows) * k);
  T* padded = buffers[1].get<T>(static_cast<size_t>(width) * stride);
  T* b = buffers[2].get<T>(static_cast<size_t>(width) * stride);
  T *row_add = buffers[3].get<T>(rows), *col_add = buffers[4].get<T>(width);
  const size_t size = static_cast<size_t>(rows) * width;
  T *start = buffers[5].get<T>(size), *sum = buffers[6].get<T>(size);
  T* other = kind == ScoreKind::mean ? nullptr : buffers[7].get<T>(size);
  for (int64_t s = 0; s < t.draws; ++s) {
    const T *w = t.w + s * t.rows * k, *h = t.h + (s * t.columns + t.first_column) * k;
    for (int r = 0; r < t.n_rows; ++r)
      std::memcpy(a + static_cast<size_t>(r) * k, w + t.row_ids[r] * k, sizeof(T) * k);
    pack_columns(h, t.n_columns, k, padded, stride, b, width);
    std::fill_n(row_add, t.n_rows, static_cast<T>(t.offset[s]));
    if (t.row_bias) {
      for (int r = 0; r < t.n_rows; ++r)
        row_add[r] = static_cast<T>(t.row_bias[s * t.rows + t.row_ids[r]] + t.offset[s]);
      std::memcpy(col_add, t.col_bias + s * t.columns + t.first_column, sizeof(T) * t.n_columns);
    }
    add_draw<T, kind>(a, b, k, rows, width, row_add, col_add, s == 0, t.threshold, start, sum, other);
  }
  const T n = static_cast<T>(t.draws);
  for (int r = 0; r < t.n_rows; ++r)
    for (int c = 0; c < t.n_columns; ++c) {
      const size_t at = static_cast<size_t>(r) * width + c, to = static_cast<size_t>(r) * t.columns + c;
      mean[to] = start[at] + sum[at] / n;
      if (kind == ScoreKind::sd) {
        const T variance = (other[at] - sum[at] * sum[at] / n) / (n - 1);
        second[to] = n > 1 && variance > 0 ? std::sqrt(variance) : T(0);
      }
      if (kind == ScoreKind::above) second[to] = other[at] / n;
    }
}

template <class T>
void scores(const ScoreTile<T>& t, T* mean, T* second) {
  if (t.kind == ScoreKind::mean) return score_tile<T, ScoreKind::mean>(t, mean, second);
  if (t.kind == ScoreKind::sd) return score_tile<T, ScoreKind::sd>(t, mean, second);
  score_tile<T, ScoreKind::above>(t, mean, second);
}

}  // namespace psgld::PSGLD_ISA
