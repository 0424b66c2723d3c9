// Negative binomial: counts of mean mu and variance mu + mu^2 / r, score = (v / mu - 1) r / (mu + r).
// Its parts are in the ratio v / mu, as those of Poisson: split as v / mu and (v + r) / (mu + r), their ratio
// is near 1 wherever mu is large beside r, and the non-negative metric, which rests on it, hardly moves.
#pragma once

#include "likelihood/functor.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct NegativeBinomial : Functor<T> {
  using V = Vec<T>;
  static constexpr const char* kName = "negative-binomial";
  static constexpr bool kLattice = true;
  T r, inverse;  // and 1 / r
  explicit NegativeBinomial(const Likelihood<T>& likelihood)
      : Functor<T>(likelihood), r(likelihood.parameter[0]), inverse(T(1) / r) {}

  V share(V mu) const { return vrecip<T>(T(1) + inverse * mu); }  // r / (mu + r), for any r
  V positive(V v, V mu) const { return v * vrecip<T>(mu) * share(mu); }
  V score(V v, V mu) const { return (v * vrecip<T>(mu) - T(1)) * share(mu); }
  V weight(V, V mu) const { return share(mu); }
  V kernel(V v, V mu) const { return v * vlog(mu) - (v + r) * vlog1p<T>(inverse * mu); }

  double log_kernel(double v, double mu) const { return v * std::log(mu) - (v + r) * std::log1p(mu / r); }
  double variance(double mu, double) const { return mu + mu * mu / r; }
  double draw(double mu, double, Stream& z) const { return z.poisson(z.gamma(r) * (mu / r)); }
};

}  // namespace psgld::PSGLD_ISA
