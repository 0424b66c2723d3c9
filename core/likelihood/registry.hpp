// The families. To add one: its header here, and its functor in `Families`.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "likelihood/bernoulli.hpp"
#include "likelihood/compound_poisson.hpp"
#include "likelihood/gamma.hpp"
#include "likelihood/gaussian.hpp"
#include "likelihood/inverse_gaussian.hpp"
#include "likelihood/negative_binomial.hpp"
#include "likelihood/ordinal.hpp"
#include "likelihood/poisson.hpp"
#include "likelihood/positive_stable.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
using Families =
    std::tuple<Poisson<T>, Gaussian<T>, Gamma<T>, InverseGaussian<T>, HalfCompoundPoisson<T>,
               CompoundPoisson<T>, PositiveStable<T>, NegativeBinomial<T>, Bernoulli<T>, Ordinal<T>>;

constexpr auto kTraits = []<size_t... I>(std::index_sequence<I...>) {
  return std::array{traits_of<std::tuple_element_t<I, Families<float>>>()...};
}(std::make_index_sequence<std::tuple_size_v<Families<float>>>{});

// What a family is, at run time.
template <class T>
inline const Traits& traits(const Likelihood<T>& likelihood) {
  return kTraits[likelihood.family];
}

// f(the functor of the likelihood)
template <class T, class F>
inline void with_family(const Likelihood<T>& likelihood, F&& f) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((likelihood.family == static_cast<int>(I) &&
      (f(std::tuple_element_t<I, Families<T>>(likelihood)), true)) ||
     ...);
  }(std::make_index_sequence<kTraits.size()>{});
}

// eta as a family takes it: away from zero where it must be positive.
template <class Family, class T>
inline Vec<T> guarded(const Likelihood<T>& likelihood, Vec<T> eta) {
  return Family::kPositive ? vmax(eta, splat<T>(likelihood.floor)) : eta;
}
template <class Family>
inline double guarded(double eta, double floor) {
  return Family::kPositive && eta < floor ? floor : eta;
}

}  // namespace psgld::PSGLD_ISA
