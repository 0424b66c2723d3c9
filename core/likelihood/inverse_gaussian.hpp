// Inverse Gaussian, beta = -1: score = (v - mu) / mu^3. Its variance is phi mu^3.
#pragma once

#include "likelihood/power.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct InverseGaussian : Functor<T> {
  using V = Vec<T>;
  using Functor<T>::Functor;
  static constexpr const char* kName = "inverse-gaussian";

  V positive(V v, V mu) const {
    V r = vrecip<T>(mu);
    return v * r * r * r;
  }
  V score(V v, V mu) const {
    V r = vrecip<T>(mu);
    return (v * r - T(1)) * r * r;
  }
  V weight(V, V mu) const {
    V r = vrecip<T>(mu);
    return r * r;
  }
  V kernel(V v, V mu) const {
    V r = vrecip<T>(mu);
    return r - T(0.5) * v * r * r;
  }

  double log_kernel(double v, double mu) const { return power_log_kernel(v, mu, -1.0); }
  double variance(double mu, double phi) const { return phi * (mu * mu * mu); }
  double draw(double mu, double phi, Stream& z) const { return z.inverse_gaussian(mu, 1.0 / phi); }
};

}  // namespace psgld::PSGLD_ISA
