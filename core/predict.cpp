#include "predict.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <vector>

#include "random.hpp"

namespace psgld {
namespace {

constexpr int64_t kPairs = 1 << 14;  // of a block
constexpr int64_t kScoreRows = 256,
                  kScoreColumns = 256;  // of a tile; its sums stay in the second-level cache

// Runs task(i) for all i < n; threads take them as they become free. The first exception is passed on.
template <class Task>
void for_each(Pool& pool, int64_t n, Task&& task) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex guard;
  auto work = [&](int) {
    try {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) task(i);
    } catch (...) {
      const std::lock_guard lock(guard);
      failure = std::current_exception();
    }
  };
  n > 1 ? pool.run(work) : work(0);
  if (failure) std::rethrow_exception(failure);
}

// Calls body(first pair, number of pairs) for blocks of pairs.
template <class Body>
void for_blocks(Pool& pool, int64_t pairs, int64_t block, Body&& body) {
  block = std::max<int64_t>(64, std::min(block, (pairs + pool.size() - 1) / pool.size()));
  for_each(pool, (pairs + block - 1) / block,
           [&](int64_t b) { body(b * block, std::min(block, pairs - b * block)); });
}

// mu of one draw at n pairs.
template <class T>
void means(const Draws<T>& d, int64_t s, const int64_t* i, const int64_t* j, int64_t n, T* scratch,
           double* out) {
  const int k = d.components;
  kernels<T>().dots(d.w + s * d.rows * k, k, d.h + s * d.columns * k, k, k, i, j, n, scratch);
  if (!d.row_bias) {
    for (int64_t q = 0; q < n; ++q) out[q] = scratch[q] + d.offset[s];
    return;
  }
  const T *a = d.row_bias + s * d.rows, *c = d.col_bias + s * d.columns;
  for (int64_t q = 0; q < n; ++q)
    out[q] = scratch[q] + (static_cast<double>(a[i[q]]) + static_cast<double>(c[j[q]]) + d.offset[s]);
}

double power(double mu, double p) {
  if (p == 0.0) return 1.0;
  if (p == 1.0) return mu;
  if (p == 2.0) return mu * mu;
  if (p == 1.5) return mu * std::sqrt(mu);
  if (p == 3.0) return mu * mu * mu;
  return std::pow(mu, p);
}

double observe(double mu, double phi, const Observation& o, Stream&& z) {
  if (o.beta == 2.0) return mu + std::sqrt(phi) * z.normal();
  mu = std::max(mu, o.floor);
  if (o.beta == 1.0) return phi * z.poisson(mu / phi);
  if (o.beta == 0.0) return phi * mu * z.gamma(1.0 / phi);
  if (o.beta == -1.0) return z.inverse_gaussian(mu, 1.0 / phi);
  // Compound Poisson: a Poisson number of gamma variables.
  const double number = z.poisson(power(mu, o.beta) / (phi * o.beta));
  if (number == 0.0) return 0.0;
  return z.gamma(number * o.beta / (1.0 - o.beta)) * phi * (1.0 - o.beta) * power(mu, 1.0 - o.beta);
}

// Turns the means of one pair, one a draw, into new observations.
template <class T>
class Observer {
 public:
  Observer(const Draws<T>& d, const Observation& o) : d_(d), o_(o) {
    if (!o.wanted || o.beta != 2.0) return;
    const size_t quartets = static_cast<size_t>((d.draws + 3) / 4);
    ids_.resize(quartets);
    for (size_t q = 0; q < quartets; ++q) ids_[q] = static_cast<uint32_t>(q);
    normal_.resize(4 * quartets);
    scratch_ = kernels<T>().make_scratch();
  }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  ~Observer() {
    if (scratch_) kernels<T>().free_scratch(scratch_);
  }

  void operator()(int64_t i, int64_t j, double* x) {
    if (!o_.wanted) return;
    if (scratch_) {  // Gaussian noise comes four draws at a time, from the kernel that serves the chains
      const uint64_t cell = static_cast<uint64_t>(i) | static_cast<uint64_t>(j) << 32;
      kernels<T>().noise(ids_.data(), static_cast<int64_t>(ids_.size()), 4, 1, cell, o_.seed, normal_.data(),
                         4, scratch_);
      for (int64_t s = 0; s < d_.draws; ++s) x[s] += std::sqrt(d_.phi[s]) * normal_[s];
      return;
    }
    for (int64_t s = 0; s < d_.draws; ++s)
      x[s] = observe(
          x[s], d_.phi[s], o_,
          Stream(o_.seed, static_cast<uint32_t>(i), static_cast<uint32_t>(j), static_cast<uint32_t>(s)));
  }

 private:
  const Draws<T>& d_;
  const Observation& o_;
  std::vector<uint32_t> ids_;
  std::vector<float> normal_;
  Scratch* scratch_ = nullptr;
};

// Calls body(pair, its values over the draws) for n pairs, whose means stand draw after draw in `all`,
// `stride` apart. The values may be changed; with `back` they are written back.
template <class T, class Body>
void for_pairs(const Draws<T>& d, const Observation& o, const int64_t* i, const int64_t* j, int64_t n,
               double* all, int64_t stride, bool back, Body&& body) {
  constexpr int64_t tile = 8;  // pairs that share the cache lines of a draw
  std::vector<double> turned(tile * d.draws);
  Observer<T> observer(d, o);
  for (int64_t q = 0; q < n; q += tile) {
    const int64_t m = std::min(tile, n - q);
    for (int64_t s = 0; s < d.draws; ++s)
      for (int64_t r = 0; r < m; ++r) turned[r * d.draws + s] = all[s * stride + q + r];
    for (int64_t r = 0; r < m; ++r) {
      observer(i[q + r], j[q + r], turned.data() + r * d.draws);
      body(q + r, turned.data() + r * d.draws);
    }
    if (!back) continue;
    for (int64_t s = 0; s < d.draws; ++s)
      for (int64_t r = 0; r < m; ++r) all[s * stride + q + r] = turned[r * d.draws + s];
  }
}

// The value at p (n - 1), linear between two; all below `from` are known to be no larger. Moves `from` up.
double quantile(double* x, int64_t n, double p, int64_t& from) {
  const double at = p * static_cast<double>(n - 1);
  const int64_t low = static_cast<int64_t>(at);
  if (low < from) from = 0;
  std::nth_element(x + from, x + low, x + n);
  from = low;
  const double t = at - static_cast<double>(low);
  if (t == 0.0) return x[low];
  return x[low] + t * (*std::min_element(x + low + 1, x + n) - x[low]);
}

}  // namespace

template <class T>
void moments(Pool& pool, const Draws<T>& d, Index rows, Index columns, double beta, double floor,
             double* mean, double* sd, double* noise) {
  for_blocks(pool, static_cast<int64_t>(rows.size()), kPairs, [&](int64_t first, int64_t n) {
    // Around the first draw: nothing cancels when the sd is small beside the mean.
    std::vector<double> mu(n), start(n), sum(n), squares(n), total(noise ? n : 0);
    std::vector<T> scratch(n);
    for (int64_t s = 0; s < d.draws; ++s) {
      means(d, s, rows.data() + first, columns.data() + first, n, scratch.data(), mu.data());
      if (s == 0) start = mu;
      for (int64_t q = 0; q < n; ++q) {
        const double away = mu[q] - start[q];
        sum[q] += away;
        squares[q] += away * away;
      }
      if (noise)
        for (int64_t q = 0; q < n; ++q)
          total[q] += d.phi[s] * power(beta == 2.0 ? mu[q] : std::max(mu[q], floor), 2.0 - beta);
    }
    const double count = static_cast<double>(d.draws);
    for (int64_t q = 0; q < n; ++q) {
      mean[first + q] = start[q] + sum[q] / count;
      const double variance = (squares[q] - sum[q] * sum[q] / count) / (count - 1.0);
      sd[first + q] = d.draws > 1 && variance > 0.0 ? std::sqrt(variance) : 0.0;
      if (noise) noise[first + q] = total[q] / count;
    }
  });
}

template <class T>
void values(Pool& pool, const Draws<T>& d, Index rows, Index columns, const Observation& o, double* out) {
  const int64_t pairs = static_cast<int64_t>(rows.size());
  for_blocks(pool, pairs, kPairs, [&](int64_t first, int64_t n) {
    const int64_t *i = rows.data() + first, *j = columns.data() + first;
    std::vector<T> scratch(n);
    for (int64_t s = 0; s < d.draws; ++s) means(d, s, i, j, n, scratch.data(), out + s * pairs + first);
    if (o.wanted) for_pairs(d, o, i, j, n, out + first, pairs, true, [](int64_t, double*) {});
  });
}

template <class T>
void quantiles(Pool& pool, const Draws<T>& d, Index rows, Index columns, const Observation& o,
               std::span<const double> probabilities, double* out) {
  const int64_t pairs = static_cast<int64_t>(rows.size());
  const int64_t block = std::clamp<int64_t>((1 << 20) / d.draws, 64, kPairs);
  for_blocks(pool, pairs, block, [&](int64_t first, int64_t n) {
    const int64_t *i = rows.data() + first, *j = columns.data() + first;
    std::vector<double> all(n * d.draws);
    std::vector<T> scratch(n);
    for (int64_t s = 0; s < d.draws; ++s) means(d, s, i, j, n, scratch.data(), all.data() + s * n);
    for_pairs(d, o, i, j, n, all.data(), n, false, [&](int64_t q, double* x) {
      int64_t from = 0;
      for (size_t p = 0; p < probabilities.size(); ++p)
        out[static_cast<int64_t>(p) * pairs + first + q] = quantile(x, d.draws, probabilities[p], from);
    });
  });
}

template <class T>
void share_above(Pool& pool, const Draws<T>& d, Index rows, Index columns, const double* threshold,
                 double* out) {
  for_blocks(pool, static_cast<int64_t>(rows.size()), kPairs, [&](int64_t first, int64_t n) {
    std::vector<double> mu(n), count(n);
    std::vector<T> scratch(n);
    for (int64_t s = 0; s < d.draws; ++s) {
      means(d, s, rows.data() + first, columns.data() + first, n, scratch.data(), mu.data());
      for (int64_t q = 0; q < n; ++q) count[q] += mu[q] > threshold[first + q];
    }
    for (int64_t q = 0; q < n; ++q) out[first + q] = count[q] / static_cast<double>(d.draws);
  });
}

template <class T>
void scores(Pool& pool, const Draws<T>& d, Index rows, ScoreKind kind, double threshold, T* mean, T* second) {
  const int64_t number = static_cast<int64_t>(rows.size());
  const int64_t down = (number + kScoreRows - 1) / kScoreRows;
  const int64_t across = (d.columns + kScoreColumns - 1) / kScoreColumns;
  for_each(pool, down * across, [&](int64_t tile) {
    const int64_t r = tile / across * kScoreRows, c = tile % across * kScoreColumns;
    ScoreTile<T> t{d.draws,
                   d.rows,
                   d.columns,
                   d.components,
                   d.w,
                   d.h,
                   d.row_bias,
                   d.col_bias,
                   d.offset,
                   rows.data() + r,
                   static_cast<int>(std::min(kScoreRows, number - r)),
                   c,
                   static_cast<int>(std::min(kScoreColumns, d.columns - c)),
                   kind,
                   static_cast<T>(threshold)};
    kernels<T>().scores(t, mean + r * d.columns + c, second ? second + r * d.columns + c : nullptr);
  });
}

template <class T>
void best(Pool& pool, const T* first, const T* second, int64_t rows, int64_t columns, const int64_t* start,
          const int32_t* seen, const bool* allowed, int64_t n, int64_t* out) {
  for_each(pool, rows, [&](int64_t r) {
    const T *a = first + r * columns, *b = second ? second + r * columns : nullptr;
    auto better = [&](int64_t x, int64_t y) {
      if (a[x] != a[y]) return a[x] > a[y];
      if (b && b[x] != b[y]) return b[x] > b[y];
      return x < y;
    };
    std::vector<int64_t> heap;  // the worst of the best on top
    heap.reserve(n + 1);
    const int32_t *next = seen + start[r], *last = seen + start[r + 1];
    for (int64_t j = 0; j < columns; ++j) {
      while (next != last && *next < j) ++next;
      if ((next != last && *next == j) || !allowed[j]) continue;
      if (static_cast<int64_t>(heap.size()) == n) {
        if (!better(j, heap.front())) continue;
        std::pop_heap(heap.begin(), heap.end(), better);
        heap.pop_back();
      }
      heap.push_back(j);
      std::push_heap(heap.begin(), heap.end(), better);
    }
    std::sort_heap(heap.begin(), heap.end(), better);
    std::copy(heap.begin(), heap.end(), out + r * n);
    std::fill(out + r * n + static_cast<int64_t>(heap.size()), out + (r + 1) * n, int64_t{-1});
  });
}

#define PSGLD_INSTANTIATE(T)                                                                                 \
  template void moments<T>(Pool&, const Draws<T>&, Index, Index, double, double, double*, double*, double*); \
  template void values<T>(Pool&, const Draws<T>&, Index, Index, const Observation&, double*);                \
  template void quantiles<T>(Pool&, const Draws<T>&, Index, Index, const Observation&,                       \
                             std::span<const double>, double*);                                              \
  template void share_above<T>(Pool&, const Draws<T>&, Index, Index, const double*, double*);                \
  template void scores<T>(Pool&, const Draws<T>&, Index, ScoreKind, double, T*, T*);                         \
  template void best<T>(Pool&, const T*, const T*, int64_t, int64_t, const int64_t*, const int32_t*,         \
                        const bool*, int64_t, int64_t*);
PSGLD_INSTANTIATE(float)
PSGLD_INSTANTIATE(double)

}  // namespace psgld
