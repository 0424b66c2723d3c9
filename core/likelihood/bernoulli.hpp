// Bernoulli: v is 1 with probability p = 1 / (1 + exp(-eta)), else 0; score = v - p.
#pragma once

#include "likelihood/functor.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct Bernoulli : Functor<T> {
  using V = Vec<T>;
  using Functor<T>::Functor;
  static constexpr const char* kName = "bernoulli";
  static constexpr bool kPositive = false, kIdentity = false, kLattice = true;

  V positive(V v, V) const { return v; }
  V weight(V, V eta) const { return vrecip<T>(T(1) + vexp(-eta)); }
  V score(V v, V eta) const { return v - weight(v, eta); }
  V kernel(V v, V eta) const { return v * eta - vmax(eta, splat<T>(0)) - vlog(T(1) + vexp(-vabs(eta))); }

  double response(double eta) const { return 1.0 / (1.0 + std::exp(-eta)); }
  double log_kernel(double v, double eta) const {
    return v * eta - (eta > 0.0 ? eta : 0.0) - std::log1p(std::exp(-std::abs(eta)));
  }
  double variance(double eta, double) const { return response(eta) * response(-eta); }
  double draw(double eta, double, Stream& z) const { return z.uniform() < response(eta) ? 1.0 : 0.0; }
};

}  // namespace psgld::PSGLD_ISA
