// One chain: the two factors, the rules by which they move, and the loop over iterations.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/pool.hpp"
#include "data/grid.hpp"
#include "langevin/kernels.hpp"

namespace psgld {

template <class T>
struct Factor {
  Aligned<T> x, momentum, inverse_root, sum, saved;
  Aligned<T> linear, quadratic, move, curvature, ridge, prior_mean, prior_sd;
  Aligned<T> coupling;  // of the components of a row, where its precision is no diagonal
  std::vector<int> full,
      occupied;  // of each strip: rows up to the first have entries, from the second on none
  bool draws_empty = false;
  T inverse = 0;
  uint32_t tag = 0;
  int stride = 0;

  RowView<const T> rows() const { return {x.data(), stride}; }
};

// Iterations t, t+1, ... of the given parts, step sizes and scales. With `draws`, not of all entries of a
// part, but of that many drawn from each of its chunks: as many numbers per iteration as the widest part has.
struct Stretch {
  uint64_t t;
  std::span<const int32_t> parts;
  std::span<const double> steps, scales;
  std::span<const int32_t> draws = {};
};

// Entries at which a chain is monitored: places in W and in H, values, and weights, if they have any. In the
// order of the outer places, threads find most of what they read in their own caches.
template <class T>
struct Monitored {
  std::span<const int64_t> rows, columns;
  std::span<const T> values, weights = {};
};

// What is taken down after some of the iterations of a stretch: the sums (2; x, x^2, log x; components) as of
// `sums`, the log kernel at entries, and the first `width` components of W and H where there is room for
// them.
template <class T>
struct Marks {
  std::span<const int64_t> after;
  Monitored<T> monitored;
  double *sums, *kernel;
  T* room[2] = {};
  size_t width = 0;
};

template <class T>
class Chain {
 public:
  const int components;
  const Grid<T>& grid;
  Factor<T> outer, inner;
  Likelihood<T> likelihood;
  Metric metric = Metric::identity;
  bool mirror = false, sums_logs = false;  // sums_logs: whether `sums` has those of log x, else zeros
  T temperature = 1, momentum = 0, phi = 1;
  uint64_t key = 0;

  // `close`: outer rows lie close (kernels.hpp), where blocks have few entries per row.
  Chain(const Grid<T>& grid, int components, bool swapped, const Likelihood<T>& likelihood, bool close);
  ~Chain();

  // W is 0 and H is 1, whichever is outer.
  const Factor<T>& factor(int which) const {
    return outer.tag == static_cast<uint32_t>(which) ? outer : inner;
  }
  Factor<T>& factor(int which) { return const_cast<Factor<T>&>(std::as_const(*this).factor(which)); }
  const Side<T>& side(int which) const { return &factor(which) == &outer ? grid.outer : grid.inner; }

  // A run of the outer strips of the grid: the blocks of a part that are worked on.
  struct Range {
    int first, last;
  };
  Range all() const { return {0, grid.strips}; }

  // With marks, all strips must be here.
  void advance(Pool& pool, const Stretch& stretch, Range strips, const Marks<T>* marks = nullptr);

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

  // Column sums of the first `quantities` of x, x^2, log x and count x^2 of a strip: (quantities,
  // components).
  void strip_sums(const Side<T>& side, const Factor<T>& factor, int strip, double* out,
                  int quantities = 4) const;

  // The column sums of both factors, added up as `group_sums.hpp` has it: (2; x, x^2, log x, count x^2;
  // components), W first.
  void sums(Pool& pool, double* out);

  // Sum of log p(v | mu), without its normaliser and times phi, at entries.
  double log_kernel_at(Pool& pool, const Monitored<T>& monitored) const;

  // An array of a factor, rows in their original order, of each its first `width` components.
  void gather(Pool& pool, int which, const Aligned<T>& from, T* out, size_t width) const;

  // Sum of x x' over the rows of a strip: (components, components), added to `out`.
  void strip_gram(const Side<T>& side, const Factor<T>& factor, int strip, double* out) const;

  void save();
  void restore();

  // To be told by whoever writes to the factors.
  void changed() { summed_ = false; }

  // Squared residuals of each chunk of each block, at its last visit; and those that `save` kept.
  std::vector<double>& residuals(bool saved) { return saved ? saved_squares_ : squares_; }

  // One value per component, in `to` once for each row of a run.
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
    int sums = 0;                    // so many of each strip are taken while it is in the cache
    bool mark = false;
  };
  struct Worker;

  // What is done at a mark: by all threads together, then by one alone.
  struct AtMark {
    std::function<void(int id)> together;
    std::function<void()> alone;
  };

  Rule<T> rule(const Factor<T>& factor, uint64_t t, double step, double scale) const;
  // Prepares the draws of rows without entries, if the prior is normal with independent components.
  void prepare_empty(Factor<T>& factor) const;
  Strip<T> strip(const Side<T>& side, const Factor<T>& factor, int number) const;
  void run(Pool& pool, size_t n, Range strips, const std::function<Iteration(size_t)>& iteration,
           const AtMark& at_mark = {});
  void work(const Iteration& now, size_t number, Worker& worker);
  void take_sums(const Side<T>& side, const Factor<T>& factor, int strip, int quantities);

  // The id-th of n shares of what several threads do together.
  void share_sums(int id, int n, int quantities);
  void share_kernel(int id, int n, const Monitored<T>& monitored, std::span<double> totals) const;
  void share_gather(int id, int n, int which, const Aligned<T>& from, T* out, size_t width) const;

  // After an iteration that read a part, a thread has at hand the outer strips of its share, and the inner
  // strips that met them.
  void share_draw(int id, int n, int which, int part, T* out, size_t width) const;

  // The sums that were taken, of a share of the groups of strips; then those of all groups, (2, quantities,
  // components).
  void share_groups(int id, int n, int part, int quantities);
  void add_up_groups(double* out, int quantities) const;

  std::vector<double> saved_squares_;
  std::vector<double> squares_;              // of each chunk of each block
  std::vector<std::atomic<int>> remaining_;  // chunks of each outer strip still to be done
  std::vector<std::atomic<int>> slot_;       // partial gradients of each outer strip, once taken
  std::vector<int> free_;                    // sets of partial gradients not in use
  std::vector<Aligned<T>> partials_;
  std::vector<std::unique_ptr<Worker>> workers_;  // one per thread
  std::mutex free_mutex_;
  size_t partial_size_ = 0;
  std::vector<double> strip_sums_;  // of the outer strips, then of the inner ones
  std::vector<double> group_sums_;  // the same of groups of strips
  bool summed_ = false;             // whether they are those of the present state
};

}  // namespace psgld
