// What the members of the Tweedie family share that have no better formula: score = (v - mu) mu^(beta-2).
#pragma once

#include "likelihood/functor.hpp"

namespace psgld::PSGLD_ISA {

// mu^p, by products and roots where they will do.
inline double power(double mu, double p) {
  if (p == 0.0) return 1.0;
  if (p == 1.0) return mu;
  if (p == 2.0) return mu * mu;
  if (p == 0.5) return std::sqrt(mu);
  if (p == 1.5) return mu * std::sqrt(mu);
  if (p == 3.0) return mu * mu * mu;
  return std::pow(mu, p);
}

inline double power_log_kernel(double v, double mu, double beta) {
  const double p = std::pow(mu, beta - 1.0);
  return v * p / (beta - 1.0) - mu * p / beta;
}

template <class T>
struct PowerFamily : Functor<T> {
  using V = Vec<T>;
  T beta;
  explicit PowerFamily(const Likelihood<T>& likelihood)
      : Functor<T>(likelihood), beta(likelihood.parameter[0]) {}

  V positive(V v, V mu) const { return v * vrecip<T>(mu) * weight(v, mu); }
  V score(V v, V mu) const { return (v * vrecip<T>(mu) - T(1)) * weight(v, mu); }
  V weight(V, V mu) const { return vpow<T>(mu, beta - T(1)); }
  V kernel(V v, V mu) const { return (v * (T(1) / (beta - T(1))) - mu * (T(1) / beta)) * weight(v, mu); }

  double log_kernel(double v, double mu) const { return power_log_kernel(v, mu, beta); }
  double variance(double mu, double phi) const { return phi * power(mu, 2.0 - beta); }
};

}  // namespace psgld::PSGLD_ISA
