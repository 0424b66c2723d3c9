// Binomial draws in double precision, from any source of uniforms in (0, 1).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

// (In the namespace of the level like all that the kernels include: the linker must never mix two levels.)
namespace psgld::PSGLD_ISA {

constexpr int kBinomialsFrom = 48;  // counts a component from which binomials are cheaper than single draws

// log n! minus Stirling's formula at n + 1.
inline double stirling_tail(double n) {
  constexpr double table[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.0207906721037650,
                              0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                              0.00925546218271273, 0.00833056343336287};
  if (n < 10) return table[static_cast<int>(n)];
  const double inverse = 1 / (n + 1), square = inverse * inverse;
  return (1.0 / 12 - (1.0 / 360 - square / 1260) * square) * inverse;
}

// n p < 10: up the distribution function.
template <class Uniform>
int32_t small_binomial(int32_t n, double p, Uniform& uniform) {
  const double odds = p / (1 - p);
  double mass = std::exp(n * std::log1p(-p)), u = uniform();
  int32_t k = 0;
  for (; u > mass && k < n; ++k) {
    u -= mass;
    mass *= odds * (n - k) / (k + 1);
  }
  return k;
}

// n p >= 10, p <= 1/2: transformed rejection with a squeeze (Hörmann 1993, BTRS).
template <class Uniform>
int32_t large_binomial(int32_t n, double p, Uniform& uniform) {
  const double sd = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * sd, a = -0.0873 + 0.0248 * b + 0.01 * p,
               c = n * p + 0.5, squeeze = 0.92 - 4.2 / b, odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * sd,
               mode = std::floor((n + 1.0) * p);
  for (;;) {
    const double u = uniform() - 0.5, us = 0.5 - std::abs(u), k = std::floor((2 * a / us + b) * u + c);
    double v = uniform();
    if (us >= 0.07 && v <= squeeze) return static_cast<int32_t>(k);
    if (k < 0 || k > n) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (n - mode + 1))) +
                         (n + 1.0) * std::log((n - mode + 1) / (n - k + 1)) +
                         (k + 0.5) * std::log(odds * (n - k + 1) / (k + 1)) + stirling_tail(mode) +
                         stirling_tail(n - mode) - stirling_tail(k) - stirling_tail(n - k);
    if (v <= bound) return static_cast<int32_t>(k);
  }
}

template <class Uniform>
int32_t binomial(int32_t n, double p, Uniform& uniform) {
  if (p > 0.5) return p >= 1 ? n : n - binomial(n, 1 - p, uniform);
  if (p <= 0) return 0;
  return n * p < 10 ? small_binomial(n, p, uniform) : large_binomial(n, p, uniform);
}

}  // namespace psgld::PSGLD_ISA
