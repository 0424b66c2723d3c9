// The three products of a dense block: C = A B, where A, plain or transposed, is read element by element and
// B a row of vectors at a time. Transposed is a template parameter: with run-time strides the addresses cost
// more than the arithmetic.
#pragma once

#include <cstddef>

#include "simd/row_view.hpp"
#include "simd/simd.hpp"

namespace psgld::PSGLD_ISA {

#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr int kTileRows = 8;  // 8 x 2 accumulators of 32 registers
#else
constexpr int kTileRows = 4;  // 4 x 2 of 16
#endif

// The row pointers of a plain A are moved on every few steps: an index register would split each
// multiplication with a broadcast operand in two.
template <class T, int Columns, bool transposed>
[[gnu::always_inline]] inline void gemm_tile(const T* a, ptrdiff_t lda, const T* b, ptrdiff_t ldb, int n,
                                             Vec<T> (&acc)[kTileRows][Columns]) {
  constexpr int kSteps = 4;
  const T* row[kTileRows];
  for (int r = 0; r < kTileRows; ++r) row[r] = transposed ? a + r : a + r * lda;
  auto add = [&](int k) __attribute__((always_inline)) {
    Vec<T> y[Columns];
    for (int c = 0; c < Columns; ++c) y[c] = load(b + c * kLanes<T>);
    b += ldb;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      const Vec<T> x = splat(transposed ? a[r] : row[r][k]);
#pragma GCC unroll 2
      for (int c = 0; c < Columns; ++c) acc[r][c] += x * y[c];
    }
    if (transposed) a += lda;
  };
  int k = 0;
  for (; k + kSteps <= n; k += kSteps) {
#pragma GCC unroll 4
    for (int step = 0; step < kSteps; ++step) add(step);
    if (!transposed)
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
        row[r] += kSteps;
        asm("" : "+r"(row[r]));  // or the compiler makes it an index again
      }
  }
  for (int rest = 0; k < n; ++k, ++rest) add(rest);
}

// C (rows x width) = or += A B or A' B, summed over n; rows a multiple of kTileRows, width of the vector.
// (One copy: those for known arguments are no faster.)
template <bool transposed, class T>
[[gnu::noclone]] inline void gemm(RowView<const T> a, RowView<const T> b, int n, RowView<T> c, int rows,
                                  int width, bool add) {
  constexpr int L = kLanes<T>;
  auto tile = [=]<int Columns>(int r, int j) __attribute__((always_inline)) {
    Vec<T> acc[kTileRows][Columns];
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 2
      for (int k = 0; k < Columns; ++k) acc[i][k] = Vec<T>{};
    gemm_tile<T, Columns, transposed>(transposed ? a.x + r : a[r], a.stride, b.x + j, b.stride, n, acc);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 2
      for (int k = 0; k < Columns; ++k) {
        T* at = c[r + i] + j + k * L;
        store(at, add ? load(at) + acc[i][k] : acc[i][k]);
      }
  };
  for (int r = 0; r < rows; r += kTileRows) {
    int j = 0;
    for (; j + 2 * L <= width; j += 2 * L) tile.template operator()<2>(r, j);
    for (; j < width; j += L) tile.template operator()<1>(r, j);
  }
}

// out[k * leading + j] = x[j * stride + k], k < n, for whole vectors of both; x may lie anywhere.
template <class T>
[[gnu::noinline]] inline void transpose(const T* x, int rows, int stride, int n, T* out, int leading) {
  constexpr int L = kLanes<T>;
  constexpr auto lanes = std::make_integer_sequence<int, L>{};
  auto interleave = [&]<int... I>(Vec<T> a, Vec<T> b, bool high, std::integer_sequence<int, I...>) {
    return high ? shuffle(a, b, std::integer_sequence<int, (I / 2 + (I % 2) * L + L / 2)...>{})
                : shuffle(a, b, std::integer_sequence<int, (I / 2 + (I % 2) * L)...>{});
  };
  for (int j = 0; j < rows; j += L)
    for (int k = 0; k < n; k += L) {
      Vec<T> t[2][L];
      for (int l = 0; l < L; ++l) t[0][l] = load_unaligned(x + static_cast<size_t>(j + l) * stride + k);
      int from = 0;
#pragma GCC unroll 4
      for (int width = 1; width < L; width *= 2, from ^= 1)
#pragma GCC unroll 8
        for (int l = 0; l < L / 2; ++l) {
          t[from ^ 1][2 * l] = interleave(t[from][l], t[from][l + L / 2], false, lanes);
          t[from ^ 1][2 * l + 1] = interleave(t[from][l], t[from][l + L / 2], true, lanes);
        }
      for (int l = 0; l < L; ++l) store(out + static_cast<size_t>(k + l) * leading + j, t[from][l]);
    }
}

}  // namespace psgld::PSGLD_ISA
