// Gaussian, beta = 2: score = v - mu. Its variance is phi.
#pragma once

#include "likelihood/functor.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct Gaussian : Functor<T> {
  using V = Vec<T>;
  using Functor<T>::Functor;
  static constexpr const char* kName = "gaussian";
  static constexpr bool kPositive = false, kSquares = true, kAdditive = true;
  static constexpr Zeros kZeros = Zeros::gram;

  V positive(V v, V) const { return v; }
  V score(V v, V mu) const { return v - mu; }
  V weight(V, V mu) const { return mu; }
  V kernel(V v, V mu) const { return (v - T(0.5) * mu) * mu; }

  double log_kernel(double v, double mu) const { return (v - 0.5 * mu) * mu; }
  double variance(double, double phi) const { return phi; }
  double draw(double mu, double phi, Stream& z) const { return mu + std::sqrt(phi) * z.normal(); }
};

}  // namespace psgld::PSGLD_ISA
