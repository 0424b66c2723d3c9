// Rows that were not in the data: draws of w >= 0 given its entries v and a draw of the other factor,
//
//   log p(w | v, h) = sum_j (v_j theta(mu_j) - kappa(mu_j)) / phi + sum_k (inverse log w_k + linear_k w_k -
//   quadratic_k w_k^2 / 2),   mu_j = sum_k w_k h_jk,
//
// by slice sampling of log w_k, one component after the other (Neal 2003): exact for every member of the
// family in the limit of many sweeps, and without a step size.
#pragma once

#include <cstdint>

#include "common/pool.hpp"

namespace psgld {

template <class T>
struct FoldIn {
  int64_t draws, columns, rows;
  int components;
  const T* h;                        // draws x columns x components
  const double* phi;                 // one per draw
  const double *linear, *quadratic;  // draws x components
  double inverse, beta, floor;
  const int64_t* start;  // compressed rows of the entries
  const int32_t* index;
  const double* value;
  bool zeros;  // absent entries are zeros; for beta = 1 only
  int sweeps;
  uint64_t seed;
};

// out: draws x rows x components.
template <class T>
void fold_in(Pool&, const FoldIn<T>&, T* out);

}  // namespace psgld
