// The kernels of the Gibbs sampler of Gaussian models. Compiled once per instruction-set level.
#pragma once

#include "langevin/kernels.hpp"

namespace psgld {

// The rows of one factor given the other, in a Gaussian model: x_i ~ N(P_i^-1 b_i, P_i^-1), where
//   P_i = precision + sum_j y_j y_j' / phi,   b_i = linear + sum_j v_ij y_j / phi
// over the stored entries of the row; components that do not move are conditioned on.
template <class T>
struct NormalRows {
  int components;
  const int64_t* start;  // compressed rows
  const int32_t* index;
  const T* value;
  const T* other;           // y, rows x stride, aligned
  T* x;                     // rows x components
  const double* precision;  // components x components, symmetric
  const double* linear;     // components
  const double* move;       // 0 where x does not move
  double phi;
  bool shared;  // `precision` holds the sum over j already: every column is observed in every row
  uint32_t tag;
  uint64_t key, iteration;
};

template <class T>
struct BpmfKernels {
  // Draws rows [first, last), at most kRowTile; returns how many had no Cholesky factor and stayed.
  int (*normal_rows)(const NormalRows<T>&, int64_t first, int64_t last, Scratch*);
  // The sum of (v - mu)^2 over the stored entries of rows [first, last), or with `zeros` of v^2 - 2 v mu.
  double (*residuals)(const NormalRows<T>&, bool zeros, int64_t first, int64_t last, Scratch*);
};

template <class T>
const BpmfKernels<T>& bpmf_kernels();

}  // namespace psgld
