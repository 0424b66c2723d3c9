// Gradients of the rows of a dense block: E = score(V, W H'), then E H for the outer rows and E' W for the
// inner ones.
#pragma once

#include <algorithm>

#include "langevin/scratch.hpp"
#include "likelihood/scores.hpp"
#include "simd/gemm.hpp"

namespace psgld::PSGLD_ISA {

// Every row of out = or += the sum of the rows of x.
template <class T>
inline void sum_of_rows(const T* x, int rows, int stride, T* out, int out_rows, bool add) {
  for (int k = 0; k < stride; k += kLanes<T>) {
    Vec<T> sum{};
    for (int r = 0; r < rows; ++r) sum += load(x + static_cast<size_t>(r) * stride + k);
    for (int r = 0; r < out_rows; ++r) {
      T* at = out + static_cast<size_t>(r) * stride + k;
      store(at, add ? load(at) + sum : sum);
    }
  }
}

// Rows of a dense block from `first` on.
template <class T>
struct DensePanel {
  const Block<T>& block;
  const Likelihood<T>& likelihood;
  Pass pass;
  const Rule<T>& rule;
  const T *outer, *inner;
  const T* packed;  // the inner strip transposed, stride x leading
  int first;
  T *outer_gradient, *inner_gradient;
  bool add;  // to the inner gradient, instead of replacing it
  T* panel;  // room for the scores, kPanelRows x kPanelColumns
};

template <class T>
inline double dense_rows(const DensePanel<T>& p, int rows) {
  const auto [block, likelihood, pass, rule, outer, inner, packed, first, outer_gradient, inner_gradient, add,
              panel] = p;
  if (pass == Pass::weight && traits(likelihood).unit_weight && !block.weight &&
      block.entries == static_cast<int64_t>(block.rows) * block.columns) {  // E = 1: no products
    sum_of_rows(inner, block.columns, rule.stride, outer_gradient, rows, false);
    sum_of_rows(outer, std::min(rows, block.rows - first), rule.stride, inner_gradient, block.columns, add);
    return 0;
  }
  double squares = 0;
  for (int j = 0; j < block.leading; j += kPanelColumns) {
    const int columns = block.leading - j < kPanelColumns ? block.leading - j : kPanelColumns;
    gemm<false, T>({outer, rule.stride}, {packed + j, block.leading}, rule.components, {panel, columns}, rows,
                   columns, false);
    // A block of one panel is a single run of entries.
    const bool whole = columns == block.leading;
    const int runs = whole ? 1 : rows, length = whole ? rows * columns : columns;
    for (int r = 0; r < runs; ++r) {
      const size_t at = static_cast<size_t>(first + r) * block.leading + j;
      squares += scores(likelihood, pass, block.dense + at, block.weight ? block.weight + at : nullptr,
                        panel + r * columns, length);
    }
    const size_t at = static_cast<size_t>(j) * rule.stride;
    gemm<false, T>({panel, columns}, {inner + at, rule.stride}, columns, {outer_gradient, rule.stride}, rows,
                   rule.stride, j > 0);
    gemm<true, T>({panel, columns}, {outer, rule.stride}, rows, {inner_gradient + at, rule.stride}, columns,
                  rule.stride, add);
  }
  return squares;
}

}  // namespace psgld::PSGLD_ISA
