// Some columns of some rows, scored to the bit as score_tile.hpp scores them: sixteen columns of a row side
// by side, draw after draw. What the next draw needs is asked for on the way.
#pragma once

#include "predict/score_tile.hpp"
#include "simd/int16.hpp"

#if defined(PSGLD_HAS_INT16)

namespace psgld::PSGLD_ISA {

// out: the bound mean + threshold sd at rows[g] and columns[kRescoreColumns g …].
inline void rescore(const ScoreTile<float>& t, int64_t n, const int64_t* rows, const int32_t* columns,
                    float* out) {
  constexpr int L = kLanes<float>;
  static_assert(kRescoreColumns == L);
  const int stride = (t.components + L - 1) / L * L, last = stride - L;
  const FirstLanes rest(t.components - last);
  const bool adds = has_sums(t);
  Buffer memory[3];
  float* gathered = memory[0].get<float>(static_cast<size_t>(L) * stride);
  float* turned = memory[1].get<float>(static_cast<size_t>(L) * stride);
  const int64_t size = n * L;
  float *start = memory[2].get<float>(3 * size), *sum = start + size, *second = sum + size;
  for (int64_t s = 0; s < t.draws; ++s)
    for (int64_t at = 0; at < size; at += L) {
      const int64_t row = rows[at / L], next = s + 1 < t.draws ? t.columns * t.components : 0;
      VecF col_add{};
      for (int l = 0; l < L; ++l) {
        const int64_t column = s * t.columns + columns[at + l];
        const float* h = t.h + column * t.components;
        float* to = gathered + static_cast<size_t>(l) * stride;
        ask_for(h + next, t.components);
        for (int k = 0; k < last; k += L) store(to + k, load_unaligned(h + k));
        store(to + last, rest.load(h + last));
        if (t.col_bias) col_add[l] = t.col_bias[column];
      }
      transpose(gathered, L, stride, stride, turned, L);
      const float* w = t.w + (s * t.rows + row) * t.components;
      VecF mu = load(start + at);
      if (adds) mu += splat(row_sum(t, s, row)) + col_add;
      for (int k = 0; k < t.components; ++k) mu += splat(w[k]) * load(turned + static_cast<size_t>(k) * L);
      if (s == 0) {
        store(start + at, -mu);
      } else {
        store(sum + at, load(sum + at) + mu);
        store(second + at, load(second + at) + mu * mu);
      }
    }
  const float draws = static_cast<float>(t.draws);
  for (int64_t q = 0; q < size; ++q)
    out[q] = mean_of(start[q], sum[q], draws) + t.threshold * sd_of(sum[q], second[q], draws);
}

}  // namespace psgld::PSGLD_ISA
#endif
