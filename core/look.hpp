// Some columns of some rows, scored to the bit as score_tile.hpp scores them: sixteen columns of a row side
// by side, draw after draw. What the next draw needs is asked for on the way.
#pragma once

#include "score_tile.hpp"

namespace psgld::PSGLD_ISA {

// out: the bound mean + threshold sd at rows[g] and columns[kLookColumns g …].
template <class T>
void look(const ScoreTile<T>& t, int64_t n, const int64_t* rows, const int32_t* columns, T* out) {
  constexpr int L = kLanes<T>;
  static_assert(kLookColumns % L == 0);
  const int stride = (t.components + L - 1) / L * L;
  const bool adds = has_sums(t);
  Buffer memory[3];
  T* gathered = memory[0].get<T>(static_cast<size_t>(L) * stride);
  T* turned = memory[1].get<T>(static_cast<size_t>(L) * stride);
  const int64_t size = n * kLookColumns;
  T *start = memory[2].get<T>(3 * size), *sum = start + size, *second = sum + size;
  std::fill_n(start, 3 * size, T(0));
  for (int64_t s = 0; s < t.draws; ++s)
    for (int64_t at = 0; at < size; at += L) {
      const int64_t row = rows[at / kLookColumns], next = s + 1 < t.draws ? t.columns * t.components : 0;
      Vec<T> col_add{};
      for (int l = 0; l < L; ++l) {
        const int64_t column = s * t.columns + columns[at + l];
        const T* h = t.h + column * t.components;
        ask_for(h + next, t.components);
        std::memcpy(gathered + static_cast<size_t>(l) * stride, h, sizeof(T) * t.components);
        if (t.col_bias) col_add[l] = t.col_bias[column];
      }
      transpose(gathered, L, stride, stride, turned, L);
      const T* w = t.w + (s * t.rows + row) * t.components;
      Vec<T> mu = load(start + at);
      if (adds) mu += splat(row_sum(t, s, row)) + col_add;
      for (int k = 0; k < t.components; ++k) mu += splat(w[k]) * load(turned + static_cast<size_t>(k) * L);
      if (s == 0) {
        store(start + at, -mu);
      } else {
        store(sum + at, load(sum + at) + mu);
        store(second + at, load(second + at) + mu * mu);
      }
    }
  const T draws = static_cast<T>(t.draws);
  for (int64_t q = 0; q < size; ++q)
    out[q] = mean_of(start[q], sum[q], draws) + t.threshold * sd_of(sum[q], second[q], draws);
}

}  // namespace psgld::PSGLD_ISA
