// Gradients of the rows of a sparse block. Entries are taken in batches that ignore where rows end: first all
// inner products, then all scores (a vector at a time, so that even a power costs little), then all sums.
#pragma once

#include <algorithm>

#include "scratch.hpp"
#include "tweedie.hpp"

namespace psgld::PSGLD_ISA {

// Inner products of the entries [q, q + lanes) as one vector. Each entry knows its row within the tile, so
// that rows of any length make one loop without a branch that the processor could guess wrong.
template <class T, int NV, bool whole, class Index>
[[gnu::always_inline]] inline Vec<T> products(const Block<T>& block, const Index* index, size_t stride,
                                              const T* tile, const T* inner, uint32_t q, int lanes) {
  constexpr int L = kLanes<T>;
  if constexpr (NV > 0) stride = NV * L;
  const int n = static_cast<int>(stride) / L;
  Vec<T> dots[L];
#pragma GCC unroll 16
  for (int l = 0; l < L; ++l) {
    const uint32_t at = q + (whole || l < lanes ? l : 0);
    const T *w = tile + block.tile_row[at] * stride, *h = inner + index[at] * stride;
    Vec<T> s = load(w) * load(h);
#pragma GCC unroll 8
    for (int c = 1; c < n; ++c) s += load(w + c * L) * load(h + c * L);
    dots[l] = s;
  }
  return horizontal_sums<T>(dots);
}

// Vectors a row: known when compiled for small ranks (a row then lives in registers), NV = 0 otherwise.
// `few` entries a row: the sums go entry by entry, in the same order, as one could not guess where rows end.
// `row` is the row of the first entry; `tile` and `tile_gradient` start at row `first`.
template <class T, int NV, class Index>
inline double sparse_batch(const Block<T>& block, const Index* index, const Likelihood<T>& likelihood,
                           Pass pass, size_t stride, const T* tile, const T* inner, int first, int row,
                           uint32_t begin, uint32_t end, bool few, T* tile_gradient, T* inner_gradient) {
  constexpr int L = kLanes<T>;
  if constexpr (NV > 0) stride = NV * L;
  const int n = static_cast<int>(stride) / L, count = static_cast<int>(end - begin);
  alignas(64) T e[kBatch];
  double squares = 0;
  if (pass == Pass::weight && likelihood.family == Family::poisson) {
    std::fill_n(e, count, T(1));  // mu^0: no need for mu
  } else {
    int q = 0;
    for (; q + L <= count; q += L)
      store(e + q, products<T, NV, true>(block, index, stride, tile, inner, begin + q, L));
    if (q < count)
      store(e + q, products<T, NV, false>(block, index, stride, tile, inner, begin + q, count - q));
    squares = scores(likelihood, pass, block.value + begin, e, count);
  }

  if (few) {
    for (uint32_t q = begin; q < end; ++q) {
      const size_t r = block.tile_row[q] * stride, at = index[q] * stride;
      const Vec<T> x = splat(e[q - begin]);
#pragma GCC unroll 8
      for (int c = 0; c < n; ++c) {
        store(tile_gradient + r + c * L, load(tile_gradient + r + c * L) + x * load(inner + at + c * L));
        store(inner_gradient + at + c * L, load(inner_gradient + at + c * L) + x * load(tile + r + c * L));
      }
    }
    return squares;
  }
  for (uint32_t from = begin; from < end; ++row) {
    const uint32_t to = block.start[row + 1] < end ? block.start[row + 1] : end;
    const T* w = tile + (row - first) * stride;
    T* g = tile_gradient + (row - first) * stride;
    Vec<T> wv[NV ? NV : 1], gv[NV ? NV : 1];
    for (int c = 0; c < NV; ++c) {
      wv[c] = load(w + c * L);
      gv[c] = load(g + c * L);
    }
    for (; from < to; ++from) {
      const T* h = inner + index[from] * stride;
      T* gh = inner_gradient + index[from] * stride;
      const Vec<T> x = splat(e[from - begin]);
      for (int c = 0; c < n; ++c) {
        if constexpr (NV > 0) {
          gv[c] += x * load(h + c * L);
          store(gh + c * L, load(gh + c * L) + x * wv[c]);
        } else {
          store(g + c * L, load(g + c * L) + x * load(h + c * L));
          store(gh + c * L, load(gh + c * L) + x * load(w + c * L));
        }
      }
    }
    for (int c = 0; c < NV; ++c) store(g + c * L, gv[c]);
  }
  return squares;
}

// The rows [first, last) of a block, at most one tile; their gradients are zeroed by the caller.
template <class T>
inline double sparse_rows(const Block<T>& block, const Likelihood<T>& likelihood, Pass pass, int stride,
                          const T* tile, const T* inner, int first, int last, T* tile_gradient,
                          T* inner_gradient) {
  double squares = 0;
  int row = first;
  const bool few = block.start[last] - block.start[first] < 3u * (last - first);
  for (uint32_t q = block.start[first]; q < block.start[last];) {
    while (block.start[row + 1] <= q) ++row;
    const uint32_t end = block.start[last] - q < kBatch ? block.start[last] : q + kBatch;
    auto batch = [&]<int NV>(const auto* index) {
      squares += sparse_batch<T, NV>(block, index, likelihood, pass, stride, tile, inner, first, row, q, end,
                                     few, tile_gradient, inner_gradient);
    };
    auto with_index = [&]<int NV>() {
      block.index16 ? batch.template operator()<NV>(block.index16)
                    : batch.template operator()<NV>(block.index32);
    };
    switch (stride / kLanes<T>) {
      case 1:
        with_index.template operator()<1>();
        break;
      case 2:
        with_index.template operator()<2>();
        break;
      case 3:
        with_index.template operator()<3>();
        break;
      case 4:
        with_index.template operator()<4>();
        break;
      case 8:
        with_index.template operator()<8>();
        break;
      default:
        with_index.template operator()<0>();
    }
    q = end;
  }
  return squares;
}

}  // namespace psgld::PSGLD_ISA
