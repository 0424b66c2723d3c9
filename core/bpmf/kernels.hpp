// The kernels of the Gibbs sampler of Gaussian models. Compiled once per instruction-set level.
#pragma once

#include "langevin/kernels.hpp"

namespace psgld {

// The rows of one factor given the other, in a Gaussian model: x_i ~ N(P_i^-1 b_i, P_i^-1), where
//   P_i = precision + sum_j (c_ij - z) y_j y_j' / phi,   b_i = linear + sum_j c_ij v_ij y_j / phi
// over the stored entries of the row, of weight c (1 by default); z is the weight of an implicit zero, which
// `precision` has seen, if there are any and entries have weights, else 0; components that do not move are
// conditioned on.
template <class T>
struct NormalRows {
  int components;
  const int64_t* start;  // compressed rows
  const int32_t* index;
  const T* value;
  const T* weight;          // null: 1
  T zero_weight;            // z
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
  // The sum of c (v - mu)^2 over the stored entries of rows [first, last), or with `zeros` of what they add
  // to the sum of z mu^2 over all: v^2 - 2 v mu, or c (v - mu)^2 - z mu^2.
  double (*residuals)(const NormalRows<T>&, bool zeros, int64_t first, int64_t last, Scratch*);
};

template <class T>
const BpmfKernels<T>& bpmf_kernels();

}  // namespace psgld
