// Gibbs sampling of a Poisson factorisation (Cemgil 2009):
//
//   s_ijk | W, H ~ Multinomial(v_ij, w_ik h_jk / mu_ij),   w_ik | s, H ~ Gamma(a + sum_j s_ijk, rate + sum_j
//   h_jk)
//
// and h likewise, the sums over the observed entries. An entry of weight c counts c times: c v_ij is
// allocated, which must be a count, and h_jk is added c times. Of s only its two sums are kept, as integers:
// those add up to the same number in any order, so every thread has inner sums of its own.
//
// The *outer* factor is the longer one: a thread takes a row of it, allocates its counts, and draws the row.
// The *inner* factor follows when all outer rows are done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/aligned.hpp"
#include "common/kernels.hpp"
#include "common/pool.hpp"

namespace psgld {

constexpr int kGibbsPad = 16;  // components are padded to a multiple of this: any vector of 32-bit lanes

// Compressed rows: where each begins, the indices on the other side.
struct Lists {
  std::vector<int64_t> start;
  std::vector<int32_t> index;
};

// The data, shared by all chains: the positive counts by outer row, weights included; for each side the
// entries whose weight is not that of `everywhere`, and the difference, or nothing where it is 1.
struct Counts {
  int64_t outer_rows, inner_rows;
  Lists positive;
  std::vector<int32_t> count;
  Lists outer_seen, inner_seen;
  std::vector<double> outer_weight, inner_weight;
  double everywhere;  // the weight of every cell: 0 where only some were observed
};

// Who asks for randomness: the counter is (row, n, sweep and purpose), the key the chain's.
struct GibbsNoise {
  uint64_t key, sweep;
  uint32_t row, factor;  // factor: 0 = outer, 1 = inner
};

// The counts of a row, with the inner rows that they are at.
struct RowCounts {
  const int32_t *index, *count;
  int64_t n;
};

// Sums of counts by component: of the row itself, and of all inner rows.
struct CountSums {
  int32_t *outer, *inner;
};

// Compiled once per instruction set. Rows are `stride` long, aligned, and 0 beyond the components.
template <class T>
struct GibbsKernels {
  // Allocates the counts of a row over the components, and adds to the sums.
  void (*allocate)(const T* w, const T* inner, int components, int stride, const RowCounts&,
                   const GibbsNoise&, const CountSums&);
  // x_k ~ Gamma(shape + sums_k, rate_k). Sums and rates are `stride` long, x is not.
  void (*gammas)(const int32_t* sums, double shape, const double* rate, int components, const GibbsNoise&,
                 T* x);
  // sum += the rows of x (rows x components) at the indices, times `weight`, unless that is null.
  void (*add_rows)(const T* x, int components, const int32_t* index, const double* weight, int64_t n,
                   double* sum);
};
template <class T>
const GibbsKernels<T>& gibbs_kernels();

template <class T>
class Gibbs {
 public:
  Gibbs(const Counts& data, int components);

  struct Factor {
    T* x;  // rows x components
    double shape;
    std::span<const double> rate;
  };

  // Sweeps t, t + 1, ..., t + n - 1.
  void advance(Pool&, uint64_t key, uint64_t t, int64_t n, const Factor& outer, const Factor& inner);

  const Counts& data;
  const int components;

 private:
  struct Side {
    const Lists& seen;
    const std::vector<double>& weight;
    std::vector<int64_t> chunks;  // bounds of the runs of rows that are worked on together
    std::vector<double> sums;     // of x, chunk by chunk
  };
  // Of one thread: sums of the inner rows (rows x stride), and room for one row.
  struct Thread {
    Aligned<int32_t> inner_sums;
    Aligned<T> row;
    Aligned<int32_t> sums;
    Aligned<double> rate;
  };
  void cut(Side&, const std::vector<double>& cost);
  void total(const Side&, double* out) const;
  void rates(const Side&, const Factor&, int64_t row, const T* other, const double* all, double* out) const;
  void place(int64_t row, const T* x);  // copies an inner row to its padded place
  void sum_chunk(Side&, const T* x, int64_t chunk);

  const int stride_;
  Side outer_, inner_;
  Aligned<T> placed_;  // the inner factor, rows x stride
  std::vector<Thread> threads_;
};

}  // namespace psgld
