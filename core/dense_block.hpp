// Gradients of the rows of a dense block: E = score(V, W H'), then E H for the outer rows and E' W for the
// inner ones.
#pragma once

#include "gemm.hpp"
#include "scratch.hpp"
#include "tweedie.hpp"

namespace psgld::PSGLD_ISA {

// `packed` is the inner strip transposed, stride x leading.
template <class T>
inline double dense_panel(const Block<T>& block, const Likelihood<T>& likelihood, Pass pass,
                          const Rule<T>& rule, const T* outer, const T* inner, const T* packed, int first,
                          int rows, T* outer_gradient, T* inner_gradient, bool add, T* panel) {
  double squares = 0;
  for (int j = 0; j < block.leading; j += kPanelColumns) {
    const int columns = block.leading - j < kPanelColumns ? block.leading - j : kPanelColumns;
    gemm<false>(outer, rule.stride, packed + j, block.leading, rule.components, panel, columns, rows, columns,
                false);
    // A block of one panel is a single run of entries.
    const bool whole = columns == block.leading;
    const int runs = whole ? 1 : rows, length = whole ? rows * columns : columns;
    for (int r = 0; r < runs; ++r)
      squares += scores(likelihood, pass, block.dense + static_cast<size_t>(first + r) * block.leading + j,
                        panel + r * columns, length);
    gemm<false>(panel, columns, inner + static_cast<size_t>(j) * rule.stride, rule.stride, columns,
                outer_gradient, rule.stride, rows, rule.stride, j > 0);
    gemm<true>(panel, columns, outer, rule.stride, rows,
               inner_gradient + static_cast<size_t>(j) * rule.stride, rule.stride, columns, rule.stride, add);
  }
  return squares;
}

}  // namespace psgld::PSGLD_ISA
