// The kernels of the Langevin samplers, and those on factors that others share: products of rows, sums.
// Compiled once per instruction-set level.
#pragma once

#include "common/kernels.hpp"
#include "simd/row_view.hpp"

namespace psgld {

struct Scratch;  // of one thread; private to the kernels

// What is done to rows [first, last) of a block.
template <class T>
struct BlockRows {
  const Block<T>& block;
  const Likelihood<T>& likelihood;
  Pass pass;
  const Rule<T>& rule;  // of the outer rows
  const Strip<T>&outer, &inner;
  int first, last;
};

// Which entries of a block are drawn: n of a stream at iteration t. With `cells`, those that a sparse block
// does not store are drawn like the others, as zeros of that weight.
template <class T>
struct Drawing {
  bool cells;
  T zero_weight;
  int n;
  uint32_t stream;
  uint64_t t, key;
};

// Sums over rows, one per column; none of the last two where the place for them is null.
struct ColumnSums {
  double *sum, *squares, *logs, *weighted;  // of x, of x^2, of log x, of x^2 times the count of the row
};

template <class T>
struct LangevinKernels {
  Scratch* (*make_scratch)();
  void (*free_scratch)(Scratch*);
  // Elements of the buffer in which one chunk of a block collects the inner gradient.
  size_t (*partial_size)(int inner_rows, int stride, const Likelihood<T>&);
  // The gradients of both sides, that of the inner one in `partial`, then (langevin) the step of the outer
  // rows. Returns the sum of squared residuals where the score is the residual.
  double (*outer_rows)(const BlockRows<T>&, T* partial, Scratch*);
  // The inner side of a block, when all its chunks are done: add up the partial gradients, in order, and
  // step.
  void (*inner_rows)(const Likelihood<T>&, Pass, const Rule<T>&, const Strip<T>& inner, T* const* partials,
                     int n, Scratch*);
  // Entries of rows [first, last) of a block, drawn with replacement, as a block that lives in the scratch.
  Block<T> (*subsample)(const Block<T>&, int first, int last, const Drawing<T>&, Scratch*);
  void (*noise)(const uint32_t* ids, int64_t rows, int components, uint32_t tag, uint64_t iteration,
                uint64_t key, float* out, int stride, Scratch*);
  void (*dots)(RowView<const T> x, RowView<const T> y, int components, const int64_t* i, const int64_t* j,
               int64_t n, T* out);
  // `weight` is null where each entry counts once.
  double (*log_kernel)(const Likelihood<T>&, const T* v, const T* weight, const T* mu, int64_t n);
  void (*column_sums)(const T* x, const T* counts, int64_t rows, int stride, int components,
                      const ColumnSums&);
  // Row r of x becomes row ids[r] of out: whole cache lines, past the caches.
  void (*stream_rows)(const T* x, int64_t rows, int stride, const uint32_t* ids, int64_t width, T* out);
  // Adds x x' over the rows to sum, components x components.
  void (*gram)(const T* x, int64_t rows, int64_t x_stride, int components, double* sum, Scratch*);
};

template <class T>
const LangevinKernels<T>& langevin_kernels();  // the best this machine has, or what PSGLD_ISA says

// Scratch that goes with whoever made it.
template <class T>
class OwnScratch {
 public:
  OwnScratch() : scratch_(langevin_kernels<T>().make_scratch()) {}
  OwnScratch(const OwnScratch&) = delete;
  OwnScratch& operator=(const OwnScratch&) = delete;
  ~OwnScratch() { langevin_kernels<T>().free_scratch(scratch_); }
  operator Scratch*() const { return scratch_; }

 private:
  Scratch* scratch_;
};

}  // namespace psgld
