// The factors e of entries in the gradient, for any family.
#pragma once

#include "likelihood/registry.hpp"

namespace psgld::PSGLD_ISA {

// mu[q] becomes the factor e of entry q in the gradient e * (row of the other side), for q in [0, n); NaN
// entries count for nothing. Returns the sum of squared residuals (score passes of families whose score is
// the residual; with implicit zeros, the part that the stored entries add to the sum of mu^2). Works on whole
// vectors: v and mu can be read to the end of the last one.
template <class T>
inline double scores(const Likelihood<T>& likelihood, Pass pass, const T* v, T* mu, int n) {
  constexpr int L = kLanes<T>;
  double squares = 0;
  with_family(likelihood, [&](auto family) {
    constexpr bool squared = decltype(family)::kSquares;
    Vec<T> total{};
    for (int q = 0; q < n; q += L) {
      Vec<T> value = load_unaligned(v + q), m = guarded<decltype(family)>(likelihood, load(mu + q)), e,
             square{};
      if (pass == Pass::weight) {
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

}  // namespace psgld::PSGLD_ISA
