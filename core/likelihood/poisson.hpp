// Poisson, beta = 1: score = v / mu - 1. Its variance is phi mu.
#pragma once

#include "likelihood/functor.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct Poisson : Functor<T> {
  using V = Vec<T>;
  using Functor<T>::Functor;
  static constexpr const char* kName = "poisson";
  static constexpr bool kUnitWeight = true, kTries = true;
  static constexpr Zeros kZeros = Zeros::sum;

  V positive(V v, V mu) const { return v * vrecip<T>(mu); }
  V score(V v, V mu) const { return v * vrecip<T>(mu) - T(1); }
  V weight(V, V) const { return splat<T>(1); }
  V kernel(V v, V mu) const { return v * vlog(mu) - mu; }

  // Where the weight is 1 the negative part of the log density is a sum of eta, which can be had at once.
  double log_positive(double v, double mu) const { return v * std::log(mu); }
  double log_kernel(double v, double mu) const { return log_positive(v, mu) - mu; }
  double variance(double mu, double phi) const { return phi * mu; }
  double draw(double mu, double phi, Stream& z) const { return phi * z.poisson(mu / phi); }

  template <class Tile>
  void first_try(Tile& tile, double phi) const {
    for (auto& m : tile.mu) m = m / phi;
    tile.poisson();
    for (auto& t : tile.out) t.value *= phi;
  }
};

}  // namespace psgld::PSGLD_ISA
