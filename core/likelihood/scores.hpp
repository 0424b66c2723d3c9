// The factors e of entries in the gradient, for any family.
#pragma once

#include "likelihood/registry.hpp"

namespace psgld::PSGLD_ISA {

// mu[q] becomes the factor e of entry q in the gradient e * (row of the other side), for q in [0, n); NaN
// entries count for nothing, others once or, with `weight`, weight[q] times. Returns the sum of squared
// residuals (score passes of families whose score is the residual; with implicit zeros, the part that the
// stored entries add to the sum of mu^2). Works on whole vectors: v, weight and mu can be read to the end of
// the last one.
//
// The implicit zeros (zeros.hpp) count z times in every cell, stored or not: a stored entry of weight w adds
// w score + z (negative part).
template <class T, bool weighted>
inline double scores_of(const Likelihood<T>& likelihood, Pass pass, const T* v, const T* weight, T* mu,
                        int n) {
  constexpr int L = kLanes<T>;
  double squares = 0;
  const T z = likelihood.zeros ? likelihood.zero_weight : 0;
  with_family(likelihood, [&](auto family) {
    constexpr bool squared = decltype(family)::kSquares;
    Vec<T> total{};
    for (int q = 0; q < n; q += L) {
      Vec<T> value = load_unaligned(v + q), m = guarded<decltype(family)>(likelihood, load(mu + q)), e,
             square{};
      if constexpr (weighted) {
        const Vec<T> w = load_unaligned(weight + q);
        if (pass == Pass::weight) {
          e = (w - z) * family.weight(value, m);
        } else {
          e = w * family.score(value, m);
          if (z != 0) e += z * family.weight(value, m);
          if (squared) square = w * ((value - m) * (value - m)) - z * (m * m);
        }
      } else if (pass == Pass::weight) {
        e = likelihood.zeros ? Vec<T>{} : family.weight(value, m);
      } else if (likelihood.zeros) {
        e = family.positive(value, m);
        if (squared) square = value * (value - m - m);
      } else {
        e = family.score(value, m);
        if (squared) square = e * e;
      }
      if (q + L > n) {
        for (int l = n - q; l < L; ++l) e[l] = square[l] = 0;
      }
      auto seen = value == value;
      store(mu + q, seen ? e : Vec<T>{});
      if (squared) total += seen ? square : Vec<T>{};
    }
    if (squared) squares = hsum<T>(total);
  });
  return squares;
}

template <class T>
inline double scores(const Likelihood<T>& likelihood, Pass pass, const T* v, const T* weight, T* mu, int n) {
  return weight ? scores_of<T, true>(likelihood, pass, v, weight, mu, n)
                : scores_of<T, false>(likelihood, pass, v, weight, mu, n);
}

}  // namespace psgld::PSGLD_ISA
