// Rows that were not in the data: draws of w given its entries v and a draw of the other factor,
//
//   log p(w | v, h) = sum_j c_j kernel(v_j, eta_j) / phi + sum_k (inverse log w_k + linear_k w_k -
//   quadratic_k w_k^2 / 2) - sum_{k < l} coupling_kl w_k w_l,   eta_j = offset_j + sum_k w_k h_jk, c_j the
//   weight of an entry (1 by default),
//
// by slice sampling, one component after the other (Neal 2003), of log w_k where w >= 0, else of w_k: exact
// for every family in the limit of many sweeps, and without a step size.
#pragma once

#include <cstdint>

#include "common/pool.hpp"
#include "likelihood/families.hpp"

namespace psgld {

struct FoldIn {
  int64_t draws, columns, rows;
  int components;
  const double* phi;                 // one per draw
  const double *linear, *quadratic;  // draws x components
  const double* coupling;  // draws x components x components, of which the diagonal is not read; or null
  const double* inverse;   // one per draw
  bool real;               // w has any sign
  const double* offset;    // draws x columns, or null
  int family;
  int n_parameters;
  const double* parameters;  // draws x n_parameters
  double floor;
  const int64_t* start;  // compressed rows of the entries
  const int32_t* index;
  const double *value, *weight;  // weight: null if each entry counts once
  bool zeros;                    // absent entries are zeros; for families whose negative part is 1
  double zero_weight;            // of each
  int sweeps;
  uint64_t seed;

  Likelihood<double> likelihood(int64_t s) const {
    return likelihood_of(family, parameters + s * n_parameters, n_parameters, floor);
  }
};

// h: draws x columns x components. out: draws x rows x components.
template <class T>
void fold_in(Pool&, const FoldIn&, const T* h, T* out);

}  // namespace psgld
