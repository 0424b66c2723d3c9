// The kernels of the Langevin samplers, and those on factors that others share: products of rows, sums.
// Compiled once per instruction-set level.
#pragma once

#include "common/kernels.hpp"

namespace psgld {

struct Scratch;  // of one thread; private to the kernels

template <class T>
struct LangevinKernels {
  Scratch* (*make_scratch)();
  void (*free_scratch)(Scratch*);
  // Elements of the buffer in which one chunk of a block collects the inner gradient.
  size_t (*partial_size)(int inner_rows, int stride, const Likelihood<T>&);
  // Rows [first, last) of a block: the gradients of both sides, then (langevin) the step of the outer rows.
  // Returns the sum of squared residuals where the score is the residual.
  double (*outer_rows)(const Block<T>&, const Likelihood<T>&, Pass, const Rule<T>&, const Strip<T>& outer,
                       const Strip<T>& inner, int first, int last, T* partial, Scratch*);
  // The inner side of a block, when all its chunks are done: add up the partial gradients, in order, and
  // step.
  void (*inner_rows)(const Likelihood<T>&, Pass, const Rule<T>&, const Strip<T>& inner, T* const* partials,
                     int n, Scratch*);
  // n entries of rows [first, last) of a block, drawn with replacement, as a block that lives in the scratch.
  Block<T> (*subsample)(const Block<T>&, bool cells, T zero_weight, int first, int last, int n,
                        uint32_t stream, uint64_t t, uint64_t key, Scratch*);
  void (*noise)(const uint32_t* ids, int64_t rows, int components, uint32_t tag, uint64_t iteration,
                uint64_t key, float* out, int stride, Scratch*);
  void (*dots)(const T* x, int64_t x_stride, const T* y, int64_t y_stride, int components, const int64_t* i,
               const int64_t* j, int64_t n, T* out);
  // `weight` is null where each entry counts once.
  double (*log_kernel)(const Likelihood<T>&, const T* v, const T* weight, const T* mu, int64_t n);
  // Column sums of x, of x^2, of log x, and of x^2 weighted by the counts; not of the last two where the
  // place for them is null.
  void (*column_sums)(const T* x, const T* counts, int64_t rows, int stride, int components, double* sum,
                      double* squares, double* logs, double* weighted);
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
