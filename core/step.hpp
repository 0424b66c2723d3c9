// The Langevin step of a tile of rows, the only place where the update of the paper is written:
//
//   x <- x + eps D (s/phi grad + prior score) + eps tau Gamma + sqrt(2 eps tau' D) z,   then x <- |x| where
//   mirrored
//
// clang-format off
//   identity       D = 1                        Gamma = 0        tau' = tau
//   non-negative   D = x / b                    Gamma = 1 / b    tau' = (1 - eps/2 lambda/b) tau, and + eps tau' (z^2 - 1) / 2b
//   real-valued    D = 1 / (count_i q_k + r_k)  Gamma = 0        tau' = (1 - eps/2) tau
// clang-format on
//
// b, q and r are frozen between refreshes. Identity is the paper. In the other two eps has no units, and tau'
// and the Milstein term (z^2 - 1) take away most of the error of the step: for a Gaussian of curvature 1/D
// all of it, for a coefficient that only its exponential prior holds the error of the mean, and of the
// variance all but eps/4.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels.hpp"
#include "philox.hpp"

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

// Rows [first, first + n) with their gradients and their noise one after the other.
template <class T, Metric metric, bool inverse>
inline void move_rows(const Rule<T>& rule, const Strip<T>& strip, int first, int n, const T* gradient,
                      const float* noise) {
  const T half = T(0.5) * std::min(rule.step, T(1));
  const T spread =
      std::sqrt(2 * rule.step * rule.temperature * (metric == Metric::real_valued ? 1 - half : T(1)));
  const int noise_stride = (rule.components + 3) / 4 * 4, stride = rule.stride;
  T* x = strip.x + static_cast<size_t>(first) * stride;
  const T* bound =
      metric == Metric::non_negative ? strip.inverse_bound + static_cast<size_t>(first) * stride : nullptr;
  for (int k = 0; k < stride; k += kLanes<T>) {
    const Vec<T> linear = load(rule.linear + k), quadratic = load(rule.quadratic + k),
                 move = load(rule.move + k);
    const Vec<T> curvature = load(rule.curvature + k), ridge = load(rule.ridge + k);
    for (int r = 0; r < n; ++r) {
      const int at = r * stride + k;
      Vec<T> w = load(x + at), z = load_noise<T>(noise + r * noise_stride + k);
      Vec<T> g = rule.scale * load(gradient + at) + linear - quadratic * w, change;
      if constexpr (metric == Metric::non_negative) {
        // D * inverse / x + tau Gamma = (inverse + tau) / b: no division by a coefficient near zero. The
        // Milstein term makes x and its noise a square, so that small coefficients are hardly ever mirrored.
        const Vec<T> inverse_b = load(bound + at), rate = rule.step * inverse_b;
        const Vec<T> heat = rule.temperature * (half * linear * inverse_b + T(1));
        const Vec<T> variance = vmax(T(2) * heat * rate * w, splat<T>(T(1e-30)));
        const Vec<T> push = (rule.inverse + rule.temperature) + T(0.5) * heat * (z * z - T(1));
        change = rate * (w * g + push) + variance * vrsqrt<T>(variance) * z;
      } else {
        if constexpr (inverse) g += rule.inverse / vmax(w, splat<T>(T(1e-20)));
        if constexpr (metric == Metric::real_valued) {
          Vec<T> root = vrsqrt<T>(strip.counts[first + r] * curvature + ridge);
          change = root * (rule.step * root * g + spread * z);
        } else {
          change = rule.step * g + spread * z;
        }
      }
      w += move * change;
      store(x + at, rule.mirror ? vabs(w) : w);
    }
  }
}

// Rows [first, first + n), n <= kRowTile.
template <class T>
inline void step_rows(const Rule<T>& rule, const Strip<T>& strip, int first, int n, const T* gradient,
                      NoisePattern& pattern, float* noise) {
  const int quartets = (rule.components + 3) / 4;
  pattern.prepare(quartets);
  if (rule.temperature == 0) {
    std::memset(noise, 0, sizeof(float) * 4 * quartets * kRowTile);
  } else {
    for (int r = 0; r < n; r += kNoiseRows)
      noise_rows(pattern, strip.ids + first + r, rule.tag, rule.iteration, rule.key,
                 noise + 4 * quartets * r);
  }
  const bool inverse = rule.inverse != 0;
  switch (rule.metric) {
    case Metric::non_negative:
      return move_rows<T, Metric::non_negative, false>(rule, strip, first, n, gradient, noise);
    case Metric::real_valued:
      return inverse ? move_rows<T, Metric::real_valued, true>(rule, strip, first, n, gradient, noise)
                     : move_rows<T, Metric::real_valued, false>(rule, strip, first, n, gradient, noise);
    case Metric::identity:
      return inverse ? move_rows<T, Metric::identity, true>(rule, strip, first, n, gradient, noise)
                     : move_rows<T, Metric::identity, false>(rule, strip, first, n, gradient, noise);
  }
}

}  // namespace psgld::PSGLD_ISA
