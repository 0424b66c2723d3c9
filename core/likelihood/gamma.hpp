// Gamma, beta = 0: score = (v - mu) / mu^2. Its variance is phi mu^2.
#pragma once

#include "likelihood/functor.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct Gamma : Functor<T> {
  using V = Vec<T>;
  using Functor<T>::Functor;
  static constexpr const char* kName = "gamma";
  static constexpr bool kTries = true;

  V positive(V v, V mu) const {
    V r = vrecip<T>(mu);
    return v * r * r;
  }
  V score(V v, V mu) const {
    V r = vrecip<T>(mu);
    return (v * r - T(1)) * r;
  }
  V weight(V, V mu) const { return vrecip<T>(mu); }
  V kernel(V v, V mu) const { return -v * vrecip<T>(mu) - vlog(mu); }

  double log_kernel(double v, double mu) const { return -(v / mu + std::log(mu)); }
  double variance(double mu, double phi) const { return phi * (mu * mu); }
  double draw(double mu, double phi, Stream& z) const { return phi * mu * z.gamma(1.0 / phi); }

  template <class Tile>
  void first_try(Tile& tile, double phi) const {
    tile.gamma(1.0 / phi);
    for (size_t part = 0; part < std::size(tile.mu); ++part) tile.out[part].value *= phi * tile.mu[part];
  }
};

}  // namespace psgld::PSGLD_ISA
