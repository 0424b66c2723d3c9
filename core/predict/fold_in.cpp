#include "predict/fold_in.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "likelihood/scalar.hpp"
#include "random/scalar_stream.hpp"

namespace psgld {
namespace {

constexpr double kWidth = 1.0;  // of the first bracket, in log w; or in w, where it has any sign
constexpr int kMostSteps = 200;

// The entries of one row and the other factor at them, component by component.
struct Entries {
  std::vector<double> v, h, mu, base, offset, weight;
  std::vector<double> total;  // of h over all observed columns, one per component
  double phi = 1.0;
  size_t size() const { return v.size(); }
};

template <class T>
void gather(const FoldIn& f, const T* h, const double* all, int64_t r, int64_t s, Entries& e) {
  const int64_t first = f.start[r], last = f.start[r + 1];
  const int k = f.components;
  h += s * f.columns * k;
  const bool sums = families()[f.family].unit_weight;
  e.phi = f.phi[s];
  e.total.assign(k, 0.0);
  e.v.clear();
  e.weight.clear();
  std::vector<int64_t> kept;
  for (int64_t q = first; q < last; ++q) {
    const T* row = h + static_cast<int64_t>(f.index[q]) * k;
    // Zeros count in every cell, stored or not.
    const double own = (f.weight ? f.weight[q] : 1.0) - (f.zeros ? f.zero_weight : 0.0);
    if (own != 0.0)
      for (int c = 0; c < k; ++c) e.total[c] += own * row[c];
    if (sums && f.value[q] == 0.0) continue;  // a zero count is in the total, and nowhere else
    kept.push_back(f.index[q]);
    e.v.push_back(f.value[q]);
    if (f.weight) e.weight.push_back(f.weight[q]);
  }
  if (f.zeros)
    for (int c = 0; c < k; ++c) e.total[c] += f.zero_weight * all[s * k + c];
  const size_t n = kept.size();
  e.h.resize(n * k);
  for (size_t q = 0; q < n; ++q)
    for (int c = 0; c < k; ++c) e.h[c * n + q] = h[kept[q] * k + c];
  e.mu.resize(n);
  e.base.resize(n);
  e.offset.assign(n, 0.0);
  if (f.offset)
    for (size_t q = 0; q < n; ++q) e.offset[q] = f.offset[s * f.columns + kept[q]];
}

// phi times the log likelihood along one component: eta = base + x h.
template <class Family>
double along(const Family& family, const Entries& e, const double* h, double total, double x, double floor) {
  const size_t n = e.size();
  double sum = 0.0;
  for (size_t q = 0; q < n; ++q) {
    const double mu = scalar::guarded<Family>(e.base[q] + x * h[q], floor);
    double term;
    if constexpr (Family::kUnitWeight)
      term = family.log_positive(e.v[q], mu);
    else
      term = family.log_kernel(e.v[q], mu);
    sum += e.weight.empty() ? term : e.weight[q] * term;
  }
  return Family::kUnitWeight ? sum - x * total : sum;
}

// One slice update of a number whose log density is f (Neal 2003: stepping out, shrinking).
template <class F>
double slice(double at, F&& f, Stream& z) {
  const double level = f(at) - z.exponential();
  double low = at - kWidth * z.uniform(), high = low + kWidth;
  for (int n = 0; n < kMostSteps && f(low) > level; ++n) low -= kWidth;
  for (int n = 0; n < kMostSteps && f(high) > level; ++n) high += kWidth;
  for (int n = 0; n < kMostSteps; ++n) {
    const double to = low + (high - low) * z.uniform();
    if (f(to) > level) return to;
    (to < at ? low : high) = to;
  }
  return at;
}

// Where a row starts: at 0, or where it is not negative at the right size: the row's sum, or the prior if the
// row is empty.
std::vector<double> first_row(const FoldIn& f, const double* linear, const Entries& e) {
  const int k = f.components;
  std::vector<double> w(k);
  if (f.real) return w;
  double sum = 0.0, size = 0.0;
  for (size_t q = 0; q < e.size(); ++q) sum += e.weight.empty() ? e.v[q] : e.weight[q] * e.v[q];
  for (double t : e.total) size += t;
  for (int c = 0; c < k; ++c) {
    const double prior = linear[c] < 0.0 ? -1.0 / linear[c] : 1.0;
    w[c] = sum > 0.0 && size > 0.0 ? sum / size : prior;
  }
  return w;
}

// What the prior's precision of whole rows adds to the linear part of component c.
double coupled(const FoldIn& f, int64_t s, int c, const std::vector<double>& w) {
  double sum = 0.0;
  if (!f.coupling) return sum;
  const int k = f.components;
  for (int l = 0; l < k; ++l)
    if (l != c) sum -= f.coupling[(s * k + c) * k + l] * w[l];
  return sum;
}

// Doubles, whatever the factors are: one per family to compile.
template <class Family>
std::vector<double> sample_row(const FoldIn& f, const Family& family, int64_t r, int64_t s, Entries& e) {
  const int k = f.components;
  const size_t n = e.size();
  const double *linear = f.linear + s * k, *quadratic = f.quadratic + s * k;
  Stream z(f.seed, static_cast<uint32_t>(r), static_cast<uint32_t>(s), 0x80000000u);
  std::vector<double> w = first_row(f, linear, e);
  for (int sweep = 0; sweep < f.sweeps; ++sweep) {
    std::copy(e.offset.begin(), e.offset.end(), e.mu.begin());  // afresh, so that rounding does not add up
    for (int c = 0; c < k; ++c)
      for (size_t q = 0; q < n; ++q) e.mu[q] += w[c] * e.h[c * n + q];
    for (int c = 0; c < k; ++c) {
      const double* h = e.h.data() + c * n;
      for (size_t q = 0; q < n; ++q) {
        e.base[q] = e.mu[q] - w[c] * h[q];
        if (!f.real) e.base[q] = std::max(e.base[q], 0.0);
      }
      const double slope = linear[c] + coupled(f, s, c, w);
      auto log_density = [&](double x) {
        return along(family, e, h, e.total[c], x, f.floor) / e.phi + (slope - 0.5 * quadratic[c] * x) * x;
      };
      auto of_log = [&](double t) {
        const double x = std::exp(t);
        return along(family, e, h, e.total[c], x, f.floor) / e.phi + (f.inverse[s] + 1.0) * t +
               (slope - 0.5 * quadratic[c] * x) * x;
      };
      w[c] =
          f.real ? slice(w[c], log_density, z) : std::max(std::exp(slice(std::log(w[c]), of_log, z)), 1e-30);
      for (size_t q = 0; q < n; ++q) e.mu[q] = e.base[q] + w[c] * h[q];
    }
  }
  return w;
}

}  // namespace

template <class T>
void fold_in(Pool& pool, const FoldIn& f, const T* h, T* out) {
  std::vector<double> all(f.zeros ? f.draws * f.components : 0);
  if (f.zeros)
    for (int64_t s = 0; s < f.draws; ++s)
      for (int64_t j = 0; j < f.columns; ++j)
        for (int c = 0; c < f.components; ++c)
          all[s * f.components + c] += h[(s * f.columns + j) * f.components + c];
  for_each(
      pool, f.rows * f.draws, [](int) { return Entries{}; },
      [&](int64_t task, Entries& e) {
        const int64_t s = task / f.rows, r = task % f.rows;
        gather(f, h, all.data(), r, s, e);
        scalar::with_family(f.likelihood(s), [&](auto family) {
          const std::vector<double> w = sample_row(f, family, r, s, e);
          std::transform(w.begin(), w.end(), out + task * f.components,
                         [](double x) { return static_cast<T>(x); });
        });
      });
}

template void fold_in<float>(Pool&, const FoldIn&, const float*, float*);
template void fold_in<double>(Pool&, const FoldIn&, const double*, double*);

}  // namespace psgld
