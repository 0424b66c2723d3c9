#include "predict/predict.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <vector>

#include "common/aligned.hpp"
#include "common/dispatch.hpp"
#include "langevin/kernels.hpp"
#include "likelihood/scalar.hpp"
#include "predict/best_columns.hpp"
#include "random/scalar_stream.hpp"

namespace psgld {

PSGLD_DISPATCH(PredictKernels, predict_kernels)

namespace {

constexpr int64_t kPairs = 1 << 14;  // of a block
// Of a tile, whose sums stay in the second-level cache. H, which is turned, is read less often than W.
constexpr int64_t kScoreRows = 512, kScoreColumns = 128;

// Calls body(first pair, number of pairs) for blocks of pairs.
template <class Body>
void for_blocks(Pool& pool, int64_t pairs, int64_t block, Body&& body) {
  block = std::max<int64_t>(64, std::min(block, (pairs + pool.size() - 1) / pool.size()));
  for_each(pool, (pairs + block - 1) / block,
           [&](int64_t b) { body(b * block, std::min(block, pairs - b * block)); });
}

// eta - origin of one draw at n pairs.
template <class T, class Out>
void predictors(const Draws<T>& d, int64_t s, const int64_t* i, const int64_t* j, int64_t n, double origin,
                T* scratch, Out* out) {
  const int k = d.components;
  langevin_kernels<T>().dots({d.w + s * d.rows * k, k}, {d.h + s * d.columns * k, k}, k, i, j, n, scratch);
  const double offset = d.offset[s] - origin;
  if (!d.row_bias) {
    for (int64_t q = 0; q < n; ++q) out[q] = static_cast<Out>(scratch[q] + offset);
    return;
  }
  const T *a = d.row_bias + s * d.rows, *c = d.col_bias + s * d.columns;
  for (int64_t q = 0; q < n; ++q)
    out[q] =
        static_cast<Out>(scratch[q] + (static_cast<double>(a[i[q]]) + static_cast<double>(c[j[q]]) + offset));
}

// eta of one draw at n pairs becomes mu.
template <class T, class X>
void respond(const Draws<T>& d, int64_t s, int64_t n, X* x) {
  if (d.traits().identity) return;
  scalar::with_family(d.likelihood(s), [&](auto family) {
    for (int64_t q = 0; q < n; ++q) x[q] = static_cast<X>(family.response(x[q]));
  });
}

double observe(const Likelihood<double>& likelihood, double eta, double phi, Stream& z) {
  double out = 0.0;
  scalar::with_family(likelihood, [&](auto family) {
    if constexpr (decltype(family)::kDraws) out = family.draw(eta, phi, z);
  });
  return out;
}

// Turns eta at n <= kTilePairs pairs, draws x stride, into new observations.
template <class T, class X>
void observe_tile(const Draws<T>& d, const Observation& o, const int64_t* i, const int64_t* j, int n, X* x,
                  int64_t stride) {
  const Traits& family = d.traits();
  if (family.additive) return predict_kernels<X>().add_noise(i, j, n, d.draws, d.phi, o.seed, x, stride);
  static_assert(kFirstWords <= Stream::kBegun);
  const int number = family.words;
  alignas(64) uint32_t words[kFirstWords][kTilePairs] = {};
  alignas(64) double value[kTilePairs];
  std::fill_n(value, kTilePairs, 1.0);
  for (int64_t s = 0; s < d.draws; ++s) {
    const uint32_t draw = static_cast<uint32_t>(s);
    X* at = x + s * stride;
    const Likelihood<double> likelihood = d.likelihood(s);
    for (int q = 0; q < n; ++q) {
      value[q] = at[q];
      if (family.positive) value[q] = std::max(value[q], d.floor);
    }
    predict_kernels<X>().first_words(i, j, n, draw, o.seed, number, words);
    uint32_t left = (1u << n) - 1;
    if (family.tries) left &= predict_kernels<X>().first_try(likelihood, d.phi[s], words, ziggurat.x, value);
    for (; left; left &= left - 1) {
      const int q = std::countr_zero(left);
      Stream stream(o.seed, static_cast<uint32_t>(i[q]), static_cast<uint32_t>(j[q]), draw, words[0] + q,
                    number, kTilePairs);
      value[q] = observe(likelihood, value[q], d.phi[s], stream);
    }
    for (int q = 0; q < n; ++q) at[q] = static_cast<X>(value[q]);
  }
}

// The value at p (n - 1) of a sorted column of a tile, linear between two; on a lattice, the first up to
// which a share p of them are.
template <class X>
double quantile(const X* column, int64_t n, double p, bool lattice) {
  if (lattice) {
    const double share = std::ceil(p * static_cast<double>(n)) - 1.0;
    return column[static_cast<int64_t>(std::max(share, 0.0)) * kTilePairs];
  }
  const double at = p * static_cast<double>(n - 1);
  const int64_t low = static_cast<int64_t>(at);
  const double t = at - static_cast<double>(low), x = column[low * kTilePairs];
  return t == 0.0 ? x : x + t * (column[(low + 1) * kTilePairs] - x);
}

}  // namespace

template <class T>
void moments(Pool& pool, const Draws<T>& d, Index rows, Index columns, double* mean, double* sd,
             double* noise) {
  for_blocks(pool, static_cast<int64_t>(rows.size()), kPairs, [&](int64_t first, int64_t n) {
    // Around the first draw: nothing cancels when the sd is small beside the mean.
    std::vector<double> mu(n), start(n), sum(n), squares(n), total(noise ? n : 0);
    std::vector<T> scratch(n);
    for (int64_t s = 0; s < d.draws; ++s) {
      predictors(d, s, rows.data() + first, columns.data() + first, n, 0.0, scratch.data(), mu.data());
      if (noise)
        scalar::with_family(d.likelihood(s), [&](auto family) {
          for (int64_t q = 0; q < n; ++q)
            total[q] += family.variance(scalar::guarded<decltype(family)>(mu[q], d.floor), d.phi[s]);
        });
      respond(d, s, n, mu.data());
      if (s == 0) start = mu;
      for (int64_t q = 0; q < n; ++q) {
        const double away = mu[q] - start[q];
        sum[q] += away;
        squares[q] += away * away;
      }
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
    for (int64_t s = 0; s < d.draws; ++s) {
      predictors(d, s, i, j, n, 0.0, scratch.data(), out + s * pairs + first);
      if (!o.wanted && !o.linear) respond(d, s, n, out + s * pairs + first);
    }
    if (!o.wanted) return;
    for (int64_t q = 0; q < n; q += kTilePairs) {
      const int m = static_cast<int>(std::min<int64_t>(kTilePairs, n - q));
      observe_tile(d, o, i + q, j + q, m, out + first + q, pairs);
    }
  });
}

template <class T>
void quantiles(Pool& pool, const Draws<T>& d, Index rows, Index columns, const Observation& o,
               std::span<const double> probabilities, double* out) {
  const int64_t pairs = static_cast<int64_t>(rows.size()), size = d.draws * kTilePairs;
  const int64_t block = std::clamp<int64_t>((1 << 21) / size * kTilePairs, 64, kPairs);
  const bool doubles = o.wanted && !d.traits().additive;  // a large count is more than a float
  const bool lattice = o.wanted && d.traits().lattice;
  // Around the offset of the first draw: what is left has few digits before the point.
  const double origin = doubles || !d.traits().identity ? 0.0 : d.offset[0];
  for_blocks(pool, pairs, block, [&](int64_t first, int64_t n) {
    const int64_t *i = rows.data() + first, *j = columns.data() + first;
    const int64_t number = (n + kTilePairs - 1) / kTilePairs;
    const auto all = aligned_array<T>(number * size);  // tile after tile, each draws x pairs
    const auto tile = aligned_array<double>(doubles ? size : 0);
    std::vector<T> scratch(n), mu(number * kTilePairs);
    for (int64_t s = 0; s < d.draws; ++s) {
      predictors(d, s, i, j, n, origin, scratch.data(), mu.data());
      if (!o.wanted) respond(d, s, n, mu.data());
      for (int64_t t = 0; t < number; ++t)
        std::copy_n(mu.data() + t * kTilePairs, kTilePairs, all.get() + t * size + s * kTilePairs);
    }
    for (int64_t t = 0; t < number; ++t) {
      const int64_t q = t * kTilePairs;
      const int m = static_cast<int>(std::min<int64_t>(kTilePairs, n - q));
      auto finish = [&](auto* x) {
        if (o.wanted) observe_tile(d, o, i + q, j + q, m, x, kTilePairs);
        predict_kernels<std::remove_pointer_t<decltype(x)>>().sort_lanes(x, d.draws);
        for (size_t p = 0; p < probabilities.size(); ++p)
          for (int r = 0; r < m; ++r)
            out[static_cast<int64_t>(p) * pairs + first + q + r] =
                quantile(x + r, d.draws, probabilities[p], lattice) + origin;
      };
      T* x = all.get() + t * size;
      if (!doubles) {
        finish(x);
        continue;
      }
      std::copy_n(x, size, tile.get());
      finish(tile.get());
    }
  });
}

template <class T>
void share_above(Pool& pool, const Draws<T>& d, Index rows, Index columns, const double* threshold,
                 double* out) {
  for_blocks(pool, static_cast<int64_t>(rows.size()), kPairs, [&](int64_t first, int64_t n) {
    std::vector<double> mu(n), count(n);
    std::vector<T> scratch(n);
    for (int64_t s = 0; s < d.draws; ++s) {
      predictors(d, s, rows.data() + first, columns.data() + first, n, 0.0, scratch.data(), mu.data());
      respond(d, s, n, mu.data());
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
    const int64_t r = tile / across * number / down, c = tile % across * kScoreColumns;
    const int64_t end = (tile / across + 1) * number / down;
    const ScoreTile<T> t =
        score_tile(d, rows.subspan(r, end - r), c, std::min(kScoreColumns, d.columns - c), kind, threshold);
    predict_kernels<T>().scores(t, mean + r * d.columns + c, second ? second + r * d.columns + c : nullptr);
  });
}

template <class T>
void best(Pool& pool, const T* first, const T* second, int64_t rows, int64_t columns, const Selection& wanted,
          int64_t* out) {
  for_each(pool, rows, [&](int64_t r) {
    const T *a = first + r * columns, *b = second ? second + r * columns : nullptr;
    const int64_t n = wanted.n;
    const std::vector<int64_t> top = best_columns(a, b, columns, wanted.seen_of(r), wanted.allowed, n);
    std::copy(top.begin(), top.end(), out + r * n);
    std::fill(out + r * n + static_cast<int64_t>(top.size()), out + (r + 1) * n, int64_t{-1});
  });
}

#define PSGLD_INSTANTIATE(T)                                                                  \
  template void moments<T>(Pool&, const Draws<T>&, Index, Index, double*, double*, double*);  \
  template void values<T>(Pool&, const Draws<T>&, Index, Index, const Observation&, double*); \
  template void quantiles<T>(Pool&, const Draws<T>&, Index, Index, const Observation&,        \
                             std::span<const double>, double*);                               \
  template void share_above<T>(Pool&, const Draws<T>&, Index, Index, const double*, double*); \
  template void scores<T>(Pool&, const Draws<T>&, Index, ScoreKind, double, T*, T*);          \
  template void best<T>(Pool&, const T*, const T*, int64_t, int64_t, const Selection&, int64_t*);
PSGLD_INSTANTIATE(float)
PSGLD_INSTANTIATE(double)
#undef PSGLD_INSTANTIATE

}  // namespace psgld
