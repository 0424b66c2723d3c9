// The Langevin step of a tile of rows, the only place where the update of the paper is written:
//
//   x <- x + eps D (s/phi grad + prior score) + eps tau Gamma + sqrt(2 eps tau' D) z,   then x <- |x| where
//   mirrored
//
// clang-format off
//   identity       D = 1                        Gamma = 0        tau' = tau
//   non-negative   D = x / b                    Gamma = 1 / b    tau' = (1 - eps/4 lambda/b)^2 tau, and + eps tau' (z^2 - 1) / 2b
//   real-valued    D = 1 / (count_i q_k + r_k)  Gamma = 0        tau' = (1 - eps/2) tau
// clang-format on
//
// b, q and r are frozen between refreshes. Identity is the paper. In the other two eps has no units, and tau'
// and the Milstein term (z^2 - 1) take away most of the error of the step: for a Gaussian of curvature 1/D
// all of it, for a coefficient that only its exponential prior holds the error of the mean, and of the
// variance all but eps/4.
//
// With momentum (0 < rho < 1) the step is of second order, the splitting BAOAB:
//
//   p <- m + eps D g,   m <- rho p + sqrt((1 - rho^2) eps tau D) z,   x <- x + (p + m) / 2,
//
// and where x < 0 is mirrored, so is m. For a Gaussian of any curvature below 4 / (eps D) its variance of x
// is exact. In the non-negative metric it moves u = sqrt(x), in which D = 1/4b is constant: a momentum kept
// in x would not know that D changes under it, and miss the posterior at any step.
//
// A prior of shape below 1 has no bound at zero: near_zero.hpp has the coordinate in which it has one.
//
// A row without entries has the distribution of its prior. If that is normal, it is drawn from it in some
// iterations, and stays as it is in the others, which leave it out (`first_skipped`).
#pragma once

#include <algorithm>
#include <cmath>

#include "common/kernels.hpp"
#include "langevin/near_zero.hpp"
#include "langevin/prefetch.hpp"
#include "random/noise.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
inline Vec<T> load_noise(const float* z);
template <>
inline Vec<float> load_noise<float>(const float* z) {
  return load_unaligned(z);
}
template <>
inline Vec<double> load_noise<double>(const float* z) {
  Vec<double> v;
  for (int l = 0; l < kLanes<double>; ++l) v[l] = z[l];
  return v;
}

template <class T>
inline void mirror(Vec<T>& x, Vec<T>& m) {
  m = x < T(0) ? -m : m;
  x = vabs(x);
}

// In the non-negative metric x + eps (x g + ...) / b is a step of a multiplicative update, x times a ratio.
// Where a mean comes close to zero beside a value that does not, that ratio is huge, and the step would be
// far too long: the ratio is clipped at this, and u = sqrt(x) is pushed by half of itself at
// most.
constexpr int kMostRatio = 20;
template <class T>
inline Vec<T> at_most(Vec<T> most, Vec<T> x) {
  return x > most ? most : x;  // NaN stays
}

// A coefficient of the non-negative metric: `root` is 1 / sqrt(b), `a` the spread of the noise of u =
// sqrt(x). With a the Milstein term makes x and its noise a square, (u + a z)^2, so that small coefficients
// are hardly ever mirrored; D * inverse / x + tau Gamma = (inverse + tau) / b: no division by one near zero.
template <class T>
inline Vec<T> root_of(Vec<T> x, Vec<T>& inverse) {
  inverse = vrsqrt<T>(vmax(x, splat<T>(T(1e-30))));
  return x * inverse;
}

template <class T>
inline Vec<T> square_change(const Rule<T>& rule, Vec<T> w, Vec<T> g, Vec<T> z, Vec<T> a, Vec<T> inverse_b) {
  Vec<T> unused;
  const Vec<T> y = a * z, drift = inverse_b * (w * g + (rule.inverse + rule.temperature));
  const Vec<T> held = at_most<T>(T(kMostRatio) * (w + inverse_b), drift);
  return y * (T(2) * root_of<T>(w, unused) + y) + (rule.step * held - a * a);
}

// A second-order step: the momentum feels the force, then friction and noise; returned is how far x moves.
template <class T>
inline Vec<T> drift(const Rule<T>& rule, Vec<T> force, Vec<T> kick, Vec<T> move, Vec<T>& m) {
  const Vec<T> p = move * (m + force);
  m = rule.momentum * p + move * kick;
  return T(0.5) * (p + m);
}

// u feels the force (2 x g + 2 inverse + tau) / u, of which tau / u is the volume of x in u. Within one step
// of zero, sqrt(eps / 4b), the force is damped.
template <class T>
inline void move_root(const Rule<T>& rule, T root_step, Vec<T>& w, Vec<T>& m, Vec<T> g, Vec<T> kick,
                      Vec<T> root, Vec<T> move) {
  Vec<T> inverse_u;
  const Vec<T> u = root_of<T>(w, inverse_u), near = root_step * root;
  const Vec<T> force = T(2) * w * g + (2 * rule.inverse + rule.temperature);
  const Vec<T> push = near * vmin(near * inverse_u, splat<T>(1)) * force;
  const Vec<T> d = drift<T>(rule, at_most<T>(T(0.5) * (u + near), push), kick, move, m);
  w = vmax(splat<T>(0), w + d * (T(2) * u + d));  // (u + d)^2, and exactly w if d = 0; NaN stays
  m = u + d < T(0) ? -m : m;
}

// A step near zero of x, or of u = sqrt(x), of which inverse / x is handled by the coordinate: returned is
// where it goes. `m` is used with momentum only.
template <class T, bool second_order>
inline Vec<T> move_near_zero(const Rule<T>& rule, const NearZero<T>& zero, Vec<T> y, Vec<T> push, Vec<T> kick,
                             Vec<T> edge, Vec<T> move, Vec<T>& m) {
  const Vec<T> d = second_order ? drift<T>(rule, push, kick, move, m) : move * (push + kick);
  return zero.leave(y + d, m, edge);
}

// w after a step, where it moves; never 0, from where it would not return. NaN stays.
template <class T>
inline Vec<T> positive_where(Vec<T> move, Vec<T> w, Vec<T> then) {
  return move == T(0) ? w : vmax(splat(std::numeric_limits<T>::min()), then);
}

template <class T, bool second_order>
inline Vec<T> move_root_near_zero(const Rule<T>& rule, const NearZero<T>& zero, T root_step, Vec<T> w,
                                  Vec<T> g, Vec<T> kick, Vec<T> root, Vec<T> move, Vec<T>& m) {
  const Vec<T> u = vsqrt<T>(w), near = root_step * root, edge = T(kNearZeroSteps) * near;
  const Vec<T> outside = (T(2) * w * g + (2 * rule.inverse + rule.temperature)) / vmax(u, edge);
  const auto [y, slope] = zero.enter(u, edge);
  const Vec<T> push =
      at_most<T>(T(0.5) * (u + near), near * near * (u < edge ? T(2) * u * g * slope : outside));
  const Vec<T> then = move_near_zero<T, second_order>(rule, zero, y, push, kick, edge, move, m);
  return positive_where<T>(move, w, then * then);
}

// In the metrics that are constant: D = 1, or 1/b.
template <class T, bool second_order>
inline Vec<T> move_plain_near_zero(const Rule<T>& rule, const NearZero<T>& zero, Vec<T> w, Vec<T> g,
                                   Vec<T> kick, Vec<T> root, Vec<T> move, Vec<T>& m) {
  const Vec<T> edge = T(kNearZeroSteps) * std::sqrt(rule.step) * root;
  const auto [y, slope] = zero.enter(w, edge);
  const Vec<T> push = root * root * rule.step * (w < edge ? g * slope : g + rule.inverse / vmax(w, edge));
  const Vec<T> then = move_near_zero<T, second_order>(rule, zero, y, push, kick, edge, move, m);
  return positive_where<T>(move, w, then);
}

// The counts of the rows of each lane, `index` rows on.
inline VecF lane_counts(const float* counts, const int32_t* index) {
  return (VecF)permute((VecU)load_unaligned(counts), load_unaligned(index));
}
inline Vec<double> lane_counts(const double* counts, const int32_t* index) {
  Vec<double> v;
  for (int l = 0; l < kLanes<double>; ++l) v[l] = counts[index[l]];
  return v;
}

// Rows [first, first + n) with their gradients and their noise one after the other. Rows that are no whole
// vectors are taken in runs that are, some of them with rows behind the last of a strip, which stay 0.
template <class T, Metric metric, bool second_order, int run>
inline void move_rows(const Rule<T>& rule, const Strip<T>& strip, int first, int n, const T* gradient,
                      const NoisePattern& pattern, const float* noise) {
  // sqrt(2 eps tau') and, of a momentum, sqrt((1 - rho^2) eps tau).
  const T rho = rule.momentum, half = T(0.5) * std::min(rule.step, T(1));
  const T spread = std::sqrt((second_order ? 1 - rho * rho : T(2)) * rule.step * rule.temperature *
                             (metric == Metric::real_valued && !second_order ? 1 - half : T(1)));
  // That of u in the non-negative metric, without 1 / sqrt(b): sqrt(tau') is a line in 1/b.
  const T level = T(0.5) * spread, slope = T(0.25) * spread * half, root_step = T(0.5) * std::sqrt(rule.step);
  // That of the first-order step of u near zero, a line in 1/b as well.
  const T near_level = level * (second_order ? T(1) : 1 - T(0.5) * half), near_slope = T(-0.5) * slope;
  const NearZero<T> zero(rule, metric == Metric::non_negative);
  const bool unbounded = rule.mirror && zero.applies();
  const int noise_stride = (rule.components + 3) / 4 * 4, stride = rule.stride;
  T* x = strip.x + static_cast<size_t>(first) * stride;
  T* momentum = second_order ? strip.momentum + static_cast<size_t>(first) * stride : nullptr;
  const T* inverse_root =
      metric == Metric::non_negative ? strip.inverse_root + static_cast<size_t>(first) * stride : nullptr;
  for (int k = 0; k < run * stride; k += kLanes<T>) {
    const Vec<T> linear = load(rule.linear + k), quadratic = load(rule.quadratic + k),
                 move = load(rule.move + k);
    const Vec<T> curvature = load(rule.curvature + k), ridge = load(rule.ridge + k);
    for (int r = 0; r < n; r += run) {
      const int at = r * stride + k;
      Vec<T> w = load(x + at), z = load_noise<T>(noise + r * noise_stride + k);
      Vec<T> g = rule.scale * load(gradient + at) + linear - quadratic * w, change;
      if constexpr (metric == Metric::non_negative) {
        const Vec<T> root = load(inverse_root + at), inverse_b = root * root;
        if (unbounded) {
          Vec<T> m = second_order ? load(momentum + at) : Vec<T>{};
          const Vec<T> spread_u =
              second_order ? level * root : root * (near_slope * linear * inverse_b + near_level);
          w = move_root_near_zero<T, second_order>(rule, zero, root_step, w, g, spread_u * z, root, move, m);
          if constexpr (second_order) store(momentum + at, m);
          store(x + at, w);
          continue;
        }
        if constexpr (second_order) {
          Vec<T> m = load(momentum + at);
          move_root<T>(rule, root_step, w, m, g, level * root * z, root, move);
          store(momentum + at, m);
          store(x + at, w);
          continue;
        }
        const Vec<T> a = root * (slope * linear * inverse_b + level);
        change = square_change<T>(rule, w, g, z, a, inverse_b);
      } else {
        Vec<T> root = splat<T>(1);
        if constexpr (metric == Metric::real_valued) {
          const T* counts = strip.counts + first + r;
          const Vec<T> count = run == 1 ? splat(*counts) : lane_counts(counts, pattern.row + k);
          root = vrsqrt<T>(count * curvature + ridge);
        }
        if (unbounded) {
          Vec<T> m = second_order ? load(momentum + at) : Vec<T>{};
          w = move_plain_near_zero<T, second_order>(rule, zero, w, g, root * (spread * z), root, move, m);
          if constexpr (second_order) store(momentum + at, m);
          store(x + at, w);
          continue;
        }
        if (rule.inverse != 0) g += rule.inverse / vmax(w, splat<T>(T(1e-20)));
        if constexpr (second_order) {
          Vec<T> m = load(momentum + at);
          w += drift<T>(rule, root * (rule.step * root * g), root * (spread * z), move, m);
          if (rule.mirror) mirror<T>(w, m);
          store(momentum + at, m);
          store(x + at, w);
          continue;
        }
        change = metric == Metric::real_valued ? root * (rule.step * root * g + spread * z)
                                               : rule.step * g + spread * z;
      }
      w += move * change;
      store(x + at, rule.mirror ? vabs(w) : w);
    }
  }
  if (n % run) {
    const size_t from = static_cast<size_t>(n) * stride, behind = sizeof(T) * (run - n % run) * stride;
    std::memset(x + from, 0, behind);
    if (second_order) std::memset(momentum + from, 0, behind);
  }
}

// The first of the rows that an iteration leaves out, up to the end of the strip.
template <class T>
inline int first_skipped(const Rule<T>& rule, const Strip<T>& strip) {
  return rule.empty == Empty::stay ? strip.occupied : strip.rows;
}

// Those of rows [first, first + n) that have no entries; their momentum stays 0.
template <class T>
inline void draw_empty_rows(const Rule<T>& rule, const Strip<T>& strip, int first, int n,
                            const float* noise) {
  const int noise_stride = (rule.components + 3) / 4 * 4;
  for (int r = 0; r < n; ++r) {
    if (strip.counts[first + r] != 0) continue;
    T* x = strip.x + static_cast<size_t>(first + r) * rule.stride;
    const float* z = noise + r * noise_stride;
#pragma GCC ivdep
    for (int k = 0; k < rule.components; ++k)
      x[k] = rule.move[k] != 0 ? rule.prior_mean[k] + rule.prior_sd[k] * static_cast<T>(z[k]) : x[k];
  }
}

// Copies those of rows [first, first + n) that have no entries, from the factor or back to it.
template <class T, bool back>
inline void keep_empty_rows(const Strip<T>& strip, int first, int n, T* kept) {
  const size_t stride = strip.stride, size = sizeof(T) * stride;
  for (int r = 0; r < n; ++r) {
    if (strip.counts[first + r] != 0) continue;
    T *x = strip.x + (first + r) * stride, *to = kept + r * stride;
    back ? std::memcpy(x, to, size) : std::memcpy(to, x, size);
    if (back && strip.momentum) std::memset(strip.momentum + (first + r) * stride, 0, size);
  }
}

// Rows [first, first + n), n <= kRowTile; what is `wanted` next is fetched from memory meanwhile.
template <class T>
inline void step_rows(const Rule<T>& rule, const Strip<T>& strip, int first, int n, const T* gradient,
                      NoisePattern& pattern, float* noise, T* kept, const Wanted<T>& wanted) {
  const int quartets = (rule.components + 3) / 4;
  Prefetch<T> ahead(wanted, 2 * kRowTile / kNoiseRows * quartets);
  auto make_noise = [&](auto&& meanwhile) {
    const ArsKeys keys(rule.key);
    for (int r = 0; r < n; r += kNoiseRows)
      noise_rows(pattern, strip.ids + first + r, rule.tag, rule.iteration, keys, noise + 4 * quartets * r,
                 meanwhile);
  };
  pattern.prepare(quartets);
  if (rule.temperature == 0) {
    std::memset(noise, 0, sizeof(float) * 4 * quartets * kRowTile);
    ahead.rest();
  } else if (wanted.empty()) {
    make_noise(Nothing{});
  } else {
    make_noise([&] { ahead.turn(); });
  }
  const bool some_empty = rule.empty != Empty::move && first + n > strip.full;
  if (some_empty) keep_empty_rows<T, false>(strip, first, n, kept);
  auto move = [&]<Metric metric, bool second_order>() {
    if constexpr (!Tail<T>::kNever)
      if (rule.stride % kLanes<T>)
        return move_rows<T, metric, second_order, kRowRun>(rule, strip, first, n, gradient, pattern, noise);
    move_rows<T, metric, second_order, 1>(rule, strip, first, n, gradient, pattern, noise);
  };
  auto go = [&]<Metric metric>() {
    rule.momentum != 0 ? move.template operator()<metric, true>() : move.template operator()<metric, false>();
  };
  switch (rule.metric) {
    case Metric::non_negative:
      go.template operator()<Metric::non_negative>();
      break;
    case Metric::real_valued:
      go.template operator()<Metric::real_valued>();
      break;
    case Metric::identity:
      go.template operator()<Metric::identity>();
      break;
  }
  if (!some_empty) return;
  keep_empty_rows<T, true>(strip, first, n, kept);
  if (rule.empty == Empty::draw) draw_empty_rows(rule, strip, first, n, noise);
}

}  // namespace psgld::PSGLD_ISA
