// Compound Poisson, 0 < beta < 1: a Poisson number of gamma variables. beta = 1/2 has roots for powers.
#pragma once

#include "likelihood/power.hpp"

namespace psgld::PSGLD_ISA {

inline double draw_compound_poisson(double mu, double phi, double beta, Stream& z) {
  const double number = z.poisson(power(mu, beta) / (phi * beta));
  if (number == 0.0) return 0.0;
  return z.gamma(number * beta / (1.0 - beta)) * phi * (1.0 - beta) * power(mu, 1.0 - beta);
}

template <class T>
struct CompoundPoisson : PowerFamily<T> {
  using PowerFamily<T>::PowerFamily;
  static constexpr const char* kName = "compound-poisson";
  static constexpr bool kTries = true;
  static constexpr int kWords = 8;  // the number and the sum of them: twice the words

  double draw(double mu, double phi, Stream& z) const {
    return draw_compound_poisson(mu, phi, this->beta, z);
  }
  template <class Tile>
  void first_try(Tile& tile, double phi) const {
    tile.compound_poisson(phi, this->beta);
  }
};

template <class T>
struct HalfCompoundPoisson : Functor<T> {
  using V = Vec<T>;
  using Functor<T>::Functor;
  static constexpr const char* kName = "half-compound-poisson";
  static constexpr bool kTries = true;
  static constexpr int kWords = 8;

  V positive(V v, V mu) const {
    V r = vrsqrt<T>(mu);
    return v * r * r * r;
  }
  V score(V v, V mu) const {
    V r = vrsqrt<T>(mu);
    return (v * r * r - T(1)) * r;
  }
  V weight(V, V mu) const { return vrsqrt<T>(mu); }
  V kernel(V v, V mu) const {
    V r = vrsqrt<T>(mu);
    return T(-2) * (v + mu) * r;
  }

  double log_kernel(double v, double mu) const { return power_log_kernel(v, mu, 0.5); }
  double variance(double mu, double phi) const { return phi * power(mu, 1.5); }
  double draw(double mu, double phi, Stream& z) const { return draw_compound_poisson(mu, phi, 0.5, z); }
  template <class Tile>
  void first_try(Tile& tile, double phi) const {
    tile.compound_poisson(phi, 0.5);
  }
};

}  // namespace psgld::PSGLD_ISA
