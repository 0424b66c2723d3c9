// Gradients of the rows of a sparse block. Entries are taken in batches that ignore where rows end: first all
// inner products, then all scores (a vector at a time, so that even a power costs little), then all sums.
#pragma once

#include <algorithm>
#include <cstring>

#include "langevin/scratch.hpp"
#include "likelihood/scores.hpp"

namespace psgld::PSGLD_ISA {

// Rows as vectors: n of them, known when compiled for small ranks (a row then lives in registers), N = 0
// otherwise. Inner rows are whole vectors, and 0 behind their end; of outer rows the last may be a `tail`.
template <class T, int N, bool tail>
struct RowShape {
  static constexpr int L = kLanes<T>;
  static constexpr bool kFixed = N > 0;
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
template <bool whole, class T, class Shape>
[[gnu::always_inline]] inline Vec<T> products(const Shape& row, const T* tile, const uint8_t* tile_row,
                                              const T* inner, const uint32_t* index, int lanes) {
  constexpr int L = kLanes<T>;
  Vec<T> dots[L];
#pragma GCC unroll 16
  for (int l = 0; l < L; ++l) {
    const int at = whole || l < lanes ? l : 0;
    const T *w = tile + tile_row[at] * row.outer_stride, *h = inner + index[at] * row.inner_stride;
    Vec<T> s = row.get(w, 0) * load(h);
    auto add = [&](int c) __attribute__((always_inline)) { s += row.get(w, c) * load(h + c * L); };
    if constexpr (Shape::kFixed) {
#pragma GCC unroll 8
      for (int c = 1; c < row.n; ++c) add(c);
    } else {
#pragma GCC unroll 2
      for (int c = 1; c < row.n; ++c) add(c);
    }
    dots[l] = s;
  }
  return horizontal_sums<T>(dots);
}

// n indices of 16 bits as ones of 32, a vector at a time: so many can be read and written.
inline void widen(const uint16_t* from, int n, uint32_t* to) {
  typedef uint16_t Narrow __attribute__((vector_size(kVectorBytes / 2)));
  for (int q = 0; q < n; q += kLanes<uint32_t>) {
    Narrow narrow;
    std::memcpy(&narrow, from + q, sizeof narrow);
    store(to + q, __builtin_convertvector(narrow, VecU));
  }
}

// Rows of a sparse block, at most one tile, that are worked on: `rows` and `row_gradient` begin at row
// `first`. `few` entries per row: the sums go entry by entry, in the same order, as one could not guess where
// rows end.
template <class T>
struct SparsePanel {
  const Block<T>& block;
  const Likelihood<T>& likelihood;
  Pass pass;
  int stride;
  const T *rows, *inner;
  int first;
  T *row_gradient, *inner_gradient;
  bool few;
};

// Vectors of a row of any length whose sums are in registers at a time.
constexpr int kRun = 4;

// The entries [begin, end), at most kBatch, the first of them in row `number`.
template <class T, int N, bool tail>
inline double sparse_batch(const SparsePanel<T>& panel, int number, uint32_t begin, uint32_t end) {
  const auto [block, likelihood, pass, stride, tile, inner, first, tile_gradient, inner_gradient, few] =
      panel;
  constexpr int L = kLanes<T>;
  using Shape = RowShape<T, N, tail>;
  const Shape row(stride);
  const int count = static_cast<int>(end - begin);
  const uint8_t* tile_row = block.tile_row + begin;
  alignas(64) T e[kBatch];
  alignas(64) uint32_t wide[kBatch];
  const uint32_t* index = block.index16 ? wide : block.index32 + begin;
  if (block.index16) widen(block.index16 + begin, count, wide);
  double squares = 0;
  const T* weight = block.weight ? block.weight + begin : nullptr;
  if (pass == Pass::weight && traits(likelihood).unit_weight && !weight) {
    std::fill_n(e, count, T(1));  // no need for mu
  } else {
    int q = 0;
    for (; q + L <= count; q += L) store(e + q, products<true>(row, tile, tile_row + q, inner, index + q, L));
    if (q < count) store(e + q, products<false>(row, tile, tile_row + q, inner, index + q, count - q));
    squares = scores(likelihood, pass, block.value + begin, weight, e, count);
  }

  if (few) {
    Vec<T> sum[N ? N : 1];
    auto before = splat(static_cast<T>(*tile_row));
    for (int c = 0; c < N; ++c) sum[c] = row.get(tile_gradient + *tile_row * row.outer_stride, c);
    for (int q = 0; q < count; ++q) {
      const size_t r = tile_row[q] * row.outer_stride, at = index[q] * row.inner_stride;
      const T *w = tile + r, *h = inner + at;
      T *g = tile_gradient + r, *gh = inner_gradient + at;
      const Vec<T> x = splat(e[q]), now = splat(static_cast<T>(tile_row[q]));
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
  for (int from = 0, to; from < count; from = to, ++number) {
    to = static_cast<int>(std::min(block.start[number + 1], end) - begin);
    const size_t at = (number - first) * row.outer_stride;
    // M vectors of the row from the c-th on, in registers over its entries.
    auto sums = [&]<int M>(int c) __attribute__((always_inline)) {
      Vec<T> wv[M], gv[M];
      for (int m = 0; m < M; ++m) {
        wv[m] = row.get(tile + at, c + m);
        gv[m] = row.get(tile_gradient + at, c + m);
      }
      for (int q = from; q < to; ++q) {
        const T* h = inner + index[q] * row.inner_stride + c * L;
        T* gh = inner_gradient + index[q] * row.inner_stride + c * L;
        const Vec<T> x = splat(e[q]);
        for (int m = 0; m < M; ++m) {
          gv[m] += x * load(h + m * L);
          store(gh + m * L, load(gh + m * L) + x * wv[m]);
        }
      }
      for (int m = 0; m < M; ++m) row.put(tile_gradient + at, c + m, gv[m]);
    };
    if constexpr (Shape::kFixed) {
      sums.template operator()<N>(0);
    } else {
      int c = 0;
      for (; c + kRun <= row.n; c += kRun) sums.template operator()<kRun>(c);
      for (; c < row.n; ++c) sums.template operator()<1>(c);
    }
  }
  return squares;
}

// Rows of floats of common ranks have kernels of their own; the others share one, so that there is less to
// compile: doubles, and processors from before 2013.
template <class T>
constexpr bool kKernelPerRank = sizeof(T) == sizeof(float) && !kOldProcessor;

// The rows [first, last) of the panel; their gradients are zeroed by the caller.
template <class T>
inline double sparse_rows(SparsePanel<T> panel, int last) {
  const uint32_t *start = panel.block.start, stop = start[last];
  double squares = 0;
  int row = panel.first;
  panel.few = stop - start[row] < 3u * (last - row);
  for (uint32_t q = start[row]; q < stop;) {
    while (start[row + 1] <= q) ++row;
    const uint32_t end = stop - q < kBatch ? stop : q + kBatch;
    auto batch = [&]<int N>() {
      if constexpr (!Tail<T>::kNever && N != 8)
        if (panel.stride % kLanes<T>) return sparse_batch<T, N, true>(panel, row, q, end);
      return sparse_batch<T, N, false>(panel, row, q, end);
    };
    auto choose = [&] {
      if constexpr (kKernelPerRank<T>) switch ((panel.stride + kLanes<T> - 1) / kLanes<T>) {
          case 1:
            return batch.template operator()<1>();
          case 2:
            return batch.template operator()<2>();
          case 3:
            return batch.template operator()<3>();
          case 4:
            return batch.template operator()<4>();
          case 8:
            if (panel.stride % kLanes<T> == 0) return batch.template operator()<8>();
        }
      return batch.template operator()<0>();
    };
    squares += choose();
    q = end;
  }
  return squares;
}

}  // namespace psgld::PSGLD_ISA
