// Gradients of the rows of a sparse block. Entries are taken in batches that ignore where rows end: first all
// inner products, then all scores (a vector at a time, so that even a power costs little), then all sums.
#pragma once

#include <algorithm>

#include "common/scratch.hpp"
#include "likelihood/scores.hpp"

namespace psgld::PSGLD_ISA {

// Rows as vectors: n of them, known when compiled for small ranks (a row then lives in registers), N = 0
// otherwise. Inner rows are whole vectors, and 0 behind their end; of outer rows the last may be a `tail`.
template <class T, int N, bool tail>
struct RowShape {
  static constexpr int L = kLanes<T>;
  const int n;
  const size_t outer_stride, inner_stride;
  const Tail<T> rest;

  explicit RowShape(int stride)
      : n(N > 0 ? N : (stride + L - 1) / L),
        outer_stride(tail ? stride : n * L),
        inner_stride(whole_stride(n * L)),
        rest(stride % L) {}
  [[gnu::always_inline]] Vec<T> get(const T* outer, int c) const {
    if constexpr (!tail) return load(outer + c * L);
    return c == n - 1 ? rest.load(outer + c * L) : load_unaligned(outer + c * L);
  }
  [[gnu::always_inline]] void put(T* outer, int c, Vec<T> v) const {
    if constexpr (!tail) return store(outer + c * L, v);
    c == n - 1 ? rest.store(outer + c * L, v) : store_unaligned(outer + c * L, v);
  }
};

// Inner products of the entries [q, q + lanes) as one vector. Each entry knows its row within the tile, so
// that rows of any length make one loop without a branch that the processor could guess wrong.
template <class T, bool whole, class Shape, class Index>
[[gnu::always_inline]] inline Vec<T> products(const Block<T>& block, const Index* index, const Shape& row,
                                              const T* tile, const T* inner, uint32_t q, int lanes) {
  constexpr int L = kLanes<T>;
  Vec<T> dots[L];
#pragma GCC unroll 16
  for (int l = 0; l < L; ++l) {
    const uint32_t at = q + (whole || l < lanes ? l : 0);
    const T *w = tile + block.tile_row[at] * row.outer_stride, *h = inner + index[at] * row.inner_stride;
    Vec<T> s = row.get(w, 0) * load(h);
#pragma GCC unroll 8
    for (int c = 1; c < row.n; ++c) s += row.get(w, c) * load(h + c * L);
    dots[l] = s;
  }
  return horizontal_sums<T>(dots);
}

// `few` entries a row: the sums go entry by entry, in the same order, as one could not guess where rows end.
// `number` is the row of the first entry; `tile` and `tile_gradient` start at row `first`.
template <class T, int N, bool tail, class Index>
inline double sparse_batch(const Block<T>& block, const Index* index, const Likelihood<T>& likelihood,
                           Pass pass, int stride, const T* tile, const T* inner, int first, int number,
                           uint32_t begin, uint32_t end, bool few, T* tile_gradient, T* inner_gradient) {
  constexpr int L = kLanes<T>;
  const RowShape<T, N, tail> row(stride);
  const int count = static_cast<int>(end - begin);
  alignas(64) T e[kBatch];
  double squares = 0;
  if (pass == Pass::weight && traits(likelihood).unit_weight) {
    std::fill_n(e, count, T(1));  // no need for mu
  } else {
    int q = 0;
    for (; q + L <= count; q += L)
      store(e + q, products<T, true>(block, index, row, tile, inner, begin + q, L));
    if (q < count) store(e + q, products<T, false>(block, index, row, tile, inner, begin + q, count - q));
    squares = scores(likelihood, pass, block.value + begin, e, count);
  }

  if (few) {
    Vec<T> sum[N ? N : 1];
    auto before = splat(static_cast<T>(block.tile_row[begin]));
    for (int c = 0; c < N; ++c) sum[c] = row.get(tile_gradient + block.tile_row[begin] * row.outer_stride, c);
    for (uint32_t q = begin; q < end; ++q) {
      const size_t r = block.tile_row[q] * row.outer_stride, at = index[q] * row.inner_stride;
      const T *w = tile + r, *h = inner + at;
      T *g = tile_gradient + r, *gh = inner_gradient + at;
      const Vec<T> x = splat(e[q - begin]), now = splat(static_cast<T>(block.tile_row[q]));
      const auto same = now == before;
      before = now;
#pragma GCC unroll 8
      for (int c = 0; c < row.n; ++c) {
        if constexpr (N > 0)
          row.put(g, c, sum[c] = (same ? sum[c] : Vec<T>{}) + x * load(h + c * L));
        else
          row.put(g, c, row.get(g, c) + x * load(h + c * L));
        store(gh + c * L, load(gh + c * L) + x * row.get(w, c));
      }
    }
    return squares;
  }
  for (uint32_t from = begin; from < end; ++number) {
    const uint32_t to = block.start[number + 1] < end ? block.start[number + 1] : end;
    const T* w = tile + (number - first) * row.outer_stride;
    T* g = tile_gradient + (number - first) * row.outer_stride;
    Vec<T> wv[N ? N : 1], gv[N ? N : 1];
    for (int c = 0; c < N; ++c) {
      wv[c] = row.get(w, c);
      gv[c] = row.get(g, c);
    }
    for (; from < to; ++from) {
      const T* h = inner + index[from] * row.inner_stride;
      T* gh = inner_gradient + index[from] * row.inner_stride;
      const Vec<T> x = splat(e[from - begin]);
      for (int c = 0; c < row.n; ++c) {
        if constexpr (N > 0) {
          gv[c] += x * load(h + c * L);
          store(gh + c * L, load(gh + c * L) + x * wv[c]);
        } else {
          row.put(g, c, row.get(g, c) + x * load(h + c * L));
          store(gh + c * L, load(gh + c * L) + x * row.get(w, c));
        }
      }
    }
    for (int c = 0; c < N; ++c) row.put(g, c, gv[c]);
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
    auto batch = [&]<int N, bool tail>(const auto* index) {
      squares += sparse_batch<T, N, tail>(block, index, likelihood, pass, stride, tile, inner, first, row, q,
                                          end, few, tile_gradient, inner_gradient);
    };
    auto with_index = [&]<int N, bool tail>() {
      block.index16 ? batch.template operator()<N, tail>(block.index16)
                    : batch.template operator()<N, tail>(block.index32);
    };
    auto with_vectors = [&]<int N>() {
      if constexpr (!Tail<T>::kNever)
        if (stride % kLanes<T>) return with_index.template operator()<N, true>();
      with_index.template operator()<N, false>();
    };
    switch ((stride + kLanes<T> - 1) / kLanes<T>) {
      case 1:
        with_vectors.template operator()<1>();
        break;
      case 2:
        with_vectors.template operator()<2>();
        break;
      case 3:
        with_vectors.template operator()<3>();
        break;
      case 4:
        with_vectors.template operator()<4>();
        break;
      case 8:
        with_vectors.template operator()<8>();
        break;
      default:
        with_vectors.template operator()<0>();
    }
    q = end;
  }
  return squares;
}

}  // namespace psgld::PSGLD_ISA
