// One chain: the two factors, the rules by which they move, and the loop over iterations.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "grid.hpp"
#include "kernels.hpp"
#include "pool.hpp"

namespace psgld {

template <class T>
struct Factor {
  Aligned<T> x, momentum, inverse_root, sum, saved;
  Aligned<T> linear, quadratic, move, curvature, ridge;
  Aligned<T> coupling;  // of the components of a row, where its precision is no diagonal
  T inverse = 0;
  uint32_t tag = 0;
  int stride = 0;
};

template <class T>
class Chain {
 public:
  const int components;
  const Grid<T>& grid;
  Factor<T> outer, inner;
  Likelihood<T> likelihood;
  Metric metric = Metric::identity;
  bool mirror = false;
  T temperature = 1, momentum = 0, phi = 1;
  uint64_t key = 0;

  // `close`: outer rows lie close (kernels.hpp), where blocks have few entries a row.
  Chain(const Grid<T>& grid, int components, bool swapped, const Likelihood<T>& likelihood, bool close);
  ~Chain();

  // A run of the outer strips of the grid: the blocks of a part that are worked on.
  struct Range {
    int first, last;
  };
  Range all() const { return {0, grid.strips}; }

  // Iterations t, t+1, ... of the given parts, step sizes and scales. With `draws`, not of all entries of a
  // part, but of that many drawn from each of its chunks: (iterations, grid.widest) numbers.
  void advance(Pool& pool, uint64_t t, std::span<const int32_t> parts, std::span<const double> steps,
               std::span<const double> scales, Range strips, std::span<const int32_t> draws);

  // Sums of scores or weights over a part (or over all of V, part < 0) into outer.sum and inner.sum.
  void accumulate(Pool& pool, Pass pass, int part);

  // The same, piece by piece: first zeros, then some blocks of a part.
  void clear_sums();
  void add_sums(Pool& pool, Pass pass, int part, Range strips);

  // The non-negative metric from the sums of the weights: b = sum / phi + rate.
  void set_bound(Pool& pool, Factor<T>& factor, std::span<const double> rate);

  // Squared residuals of an outer strip, at the last visit to each of its blocks.
  double strip_squares(int strip) const;

  // Of all outer strips that are here, in their order.
  double squares() const;

  // The same at the present state: a pass over V that leaves what `accumulate` added up alone.
  double fresh_squares(Pool& pool);

  // Column sums of x, x^2 and count x^2 of a strip: (3, components).
  void strip_sums(const Side<T>& side, const Factor<T>& factor, int strip, double* out) const;

  // The column sums of both factors, added up strip by strip: (2; x, x^2, count x^2; components), W first.
  void sums(Pool& pool, double* out);

  // Sum of log p(v | mu), without its normaliser and times phi, at pairs of positions in W and H.
  double log_kernel_at(Pool& pool, std::span<const int64_t> rows, std::span<const int64_t> columns,
                       std::span<const T> values) const;

  // Sum of x x' over the rows of a strip: (components, components), added to `out`.
  void strip_gram(const Side<T>& side, const Factor<T>& factor, int strip, double* out) const;

  void save();
  void restore();

  // To be told by whoever writes to the factors.
  void changed() { summed_ = false; }

  // Squared residuals of each chunk of each block, at its last visit; and those that `save` kept.
  std::vector<double>& residuals(bool saved) { return saved ? saved_squares_ : squares_; }

  // One value a component, in `to` once for each row of a run.
  template <class Values>
  void set_vector(const Aligned<T>& to, const Values& values) const {
    const size_t stride = to.size() / kRowRun;
    for (int r = 0; r < kRowRun; ++r)
      for (int k = 0; k < components; ++k) to[r * stride + k] = static_cast<T>(values[k]);
  }

 private:
  struct Iteration {
    int part;
    Pass pass;
    Rule<T> outer, inner;
    const int32_t* draws = nullptr;  // from each chunk of the part; null: all entries
    bool sums = false;               // take those of a strip while it is in the cache
  };
  struct Worker;

  Rule<T> rule(const Factor<T>& factor, uint64_t t, double step, double scale) const;
  Strip<T> strip(const Side<T>& side, const Factor<T>& factor, int number) const;
  void run(Pool& pool, size_t n, Range strips, const std::function<Iteration(size_t)>& iteration);
  void work(const Iteration& now, size_t number, Worker& worker);
  void take_sums(const Side<T>& side, const Factor<T>& factor, int strip);

  std::vector<double> saved_squares_;
  std::vector<double> squares_;              // of each chunk of each block
  std::vector<std::atomic<int>> remaining_;  // chunks of each outer strip still to be done
  std::vector<std::atomic<int>> slot_;       // partial gradients of each outer strip, once taken
  std::vector<int> free_;                    // sets of partial gradients not in use
  std::vector<Aligned<T>> partials_;
  std::vector<std::unique_ptr<Worker>> workers_;  // one a thread
  std::mutex free_mutex_;
  size_t partial_size_ = 0;
  std::vector<double> strip_sums_;  // of the outer strips, then of the inner ones
  bool summed_ = false;             // whether they are those of the present state
};

}  // namespace psgld
