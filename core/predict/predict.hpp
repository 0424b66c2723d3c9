// What the draws say about cells of the matrix: eta_s = sum_k w_sik h_skj (+ biases), s = 1 … S, and the mean
// mu_s of an observation, which most families have equal to it.
//
// Pairs are worked through in blocks, the draws one after the other within a block: a draw of W and H stays
// in cache while the block reads it. Every pair is on its own, so neither blocks nor threads show in the
// bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/pool.hpp"
#include "likelihood/families.hpp"
#include "predict/kernels.hpp"

namespace psgld {

template <class T>
struct Draws {
  int64_t draws, rows, columns;
  int components;
  const T *w, *h;                // draws x rows x components, draws x columns x components
  const T *row_bias, *col_bias;  // draws x rows, draws x columns; or null
  const double *offset, *phi;    // one per draw
  int family;
  int n_parameters;
  const double* parameters;  // draws x n_parameters
  double floor;              // keeps a mean that must be positive away from 0

  const Traits& traits() const { return families()[family]; }
  Likelihood<double> likelihood(int64_t s) const {
    return likelihood_of(family, parameters + s * n_parameters, n_parameters, floor);
  }
};

// What is asked for: new observations, or mu, or (linear) eta.
struct Observation {
  bool wanted;
  uint64_t seed;
  bool linear = false;
};

using Index = std::span<const int64_t>;

// mean, sd: of mu. noise: mean of the variance of an observation, unless null.
template <class T>
void moments(Pool&, const Draws<T>&, Index rows, Index columns, double* mean, double* sd, double* noise);

// out: draws x pairs.
template <class T>
void values(Pool&, const Draws<T>&, Index rows, Index columns, const Observation&, double* out);

// out: probabilities x pairs; between two draws, linear.
template <class T>
void quantiles(Pool&, const Draws<T>&, Index rows, Index columns, const Observation&,
               std::span<const double> probabilities, double* out);

// out: the share of draws with mu above the threshold of each pair.
template <class T>
void share_above(Pool&, const Draws<T>&, Index rows, Index columns, const double* threshold, double* out);

// Some rows, and n columns from the first on, to be scored: by eta, whose order is that of mu.
template <class T>
ScoreTile<T> score_tile(const Draws<T>& d, Index rows, int64_t first, int64_t n, ScoreKind kind,
                        double threshold) {
  return {d.draws,
          d.rows,
          d.columns,
          d.components,
          d.w,
          d.h,
          d.row_bias,
          d.col_bias,
          d.offset,
          rows.data(),
          static_cast<int>(rows.size()),
          first,
          static_cast<int>(n),
          kind,
          static_cast<T>(threshold)};
}

// All columns for some rows, rows x columns: mean of eta, and by `kind` its sd or the share above a
// threshold; or, without a second result, mean + threshold sd.
template <class T>
void scores(Pool&, const Draws<T>&, Index rows, ScoreKind kind, double threshold, T* mean, T* second);

// n columns are wanted of each row, none of those in seen[start[r] … start[r + 1]), and only allowed ones.
struct Selection {
  const int64_t* start;
  const int32_t* seen;
  const bool* allowed;
  int64_t n;
  std::span<const int32_t> seen_of(int64_t r) const { return {seen + start[r], seen + start[r + 1]}; }
};

// The best columns of each row: by `first`, then (unless null) by `second`, then the lower index. What is
// missing becomes -1.
template <class T>
void best(Pool&, const T* first, const T* second, int64_t rows, int64_t columns, const Selection&,
          int64_t* out);

// The same columns as those of scores (kind `bound`) and best, but quicker: screened first, where this
// machine can. Returns how many cells were rescored; all of them where there was no screen, or it left
// too many.
template <class T>
int64_t best_by_bound(Pool&, const Draws<T>&, Index rows, double threshold, const Selection&, int64_t* out);

}  // namespace psgld
