// The Tweedie family, one functor a member: score = (v - mu) mu^(beta-2), split where zeros are implicit into
// positive = v mu^(beta-2) and weight = mu^(beta-1); kernel = the log density at phi = 1 without what depends
// on v alone. To add a member: a functor here, a line in `with_family`, a value of Family.
#pragma once

#include "common/kernels.hpp"
#include "simd/simd.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct PoissonFamily {
  using V = Vec<T>;
  V positive(V v, V mu) const { return v * vrecip<T>(mu); }
  V score(V v, V mu) const { return v * vrecip<T>(mu) - T(1); }
  V weight(V) const { return splat<T>(1); }
  V kernel(V v, V mu) const { return v * vlog(mu) - mu; }
};

template <class T>
struct GaussianFamily {
  using V = Vec<T>;
  V positive(V v, V) const { return v; }
  V score(V v, V mu) const { return v - mu; }
  V weight(V mu) const { return mu; }
  V kernel(V v, V mu) const { return (v - T(0.5) * mu) * mu; }
};

template <class T>
struct GammaFamily {
  using V = Vec<T>;
  V positive(V v, V mu) const {
    V r = vrecip<T>(mu);
    return v * r * r;
  }
  V score(V v, V mu) const {
    V r = vrecip<T>(mu);
    return (v * r - T(1)) * r;
  }
  V weight(V mu) const { return vrecip<T>(mu); }
  V kernel(V v, V mu) const { return -v * vrecip<T>(mu) - vlog(mu); }
};

template <class T>
struct InverseGaussianFamily {
  using V = Vec<T>;
  V positive(V v, V mu) const {
    V r = vrecip<T>(mu);
    return v * r * r * r;
  }
  V score(V v, V mu) const {
    V r = vrecip<T>(mu);
    return (v * r - T(1)) * r * r;
  }
  V weight(V mu) const {
    V r = vrecip<T>(mu);
    return r * r;
  }
  V kernel(V v, V mu) const {
    V r = vrecip<T>(mu);
    return r - T(0.5) * v * r * r;
  }
};

template <class T>
struct HalfFamily {  // beta = 1/2, the middle of the compound Poissons
  using V = Vec<T>;
  V positive(V v, V mu) const {
    V r = vrsqrt<T>(mu);
    return v * r * r * r;
  }
  V score(V v, V mu) const {
    V r = vrsqrt<T>(mu);
    return (v * r * r - T(1)) * r;
  }
  V weight(V mu) const { return vrsqrt<T>(mu); }
  V kernel(V v, V mu) const {
    V r = vrsqrt<T>(mu);
    return T(-2) * (v + mu) * r;
  }
};

template <class T>
struct PowerFamily {  // any other beta
  using V = Vec<T>;
  T beta;
  V positive(V v, V mu) const { return v * vrecip<T>(mu) * weight(mu); }
  V score(V v, V mu) const { return (v * vrecip<T>(mu) - T(1)) * weight(mu); }
  V weight(V mu) const { return vpow<T>(mu, beta - T(1)); }
  V kernel(V v, V mu) const { return (v * (T(1) / (beta - T(1))) - mu * (T(1) / beta)) * weight(mu); }
};

template <class T, class F>
inline void with_family(const Likelihood<T>& likelihood, F&& f) {
  switch (likelihood.family) {
    case Family::poisson:
      return f(PoissonFamily<T>{});
    case Family::gaussian:
      return f(GaussianFamily<T>{});
    case Family::gamma:
      return f(GammaFamily<T>{});
    case Family::inverse_gaussian:
      return f(InverseGaussianFamily<T>{});
    case Family::half:
      return f(HalfFamily<T>{});
    case Family::power:
      return f(PowerFamily<T>{likelihood.beta});
  }
}

// mu is kept away from zero where the family divides by it.
template <class T>
inline Vec<T> guarded(const Likelihood<T>& likelihood, Vec<T> mu) {
  return likelihood.family == Family::gaussian ? mu : vmax(mu, splat<T>(likelihood.floor));
}

// mu[q] becomes the factor e of entry q in the gradient e * (row of the other side), for q in [0, n); NaN
// entries count for nothing. Returns the sum of squared residuals (Gaussian score passes; with implicit
// zeros, the part that the stored entries add to the sum of mu^2). Works on whole vectors: v and mu can be
// read to the end of the last one.
template <class T>
inline double scores(const Likelihood<T>& likelihood, Pass pass, const T* v, T* mu, int n) {
  constexpr int L = kLanes<T>;
  double squares = 0;
  with_family(likelihood, [&](auto family) {
    constexpr bool gaussian = std::is_same_v<decltype(family), GaussianFamily<T>>;
    Vec<T> total{};
    for (int q = 0; q < n; q += L) {
      Vec<T> value = load_unaligned(v + q), m = guarded(likelihood, load(mu + q)), e, square{};
      if (pass == Pass::weight) {
        e = likelihood.zeros ? Vec<T>{} : family.weight(m);
      } else if (likelihood.zeros) {
        e = family.positive(value, m);
        if (gaussian) square = value * (value - m - m);
      } else {
        e = family.score(value, m);
        if (gaussian) square = e * e;
      }
      if (q + L > n) {
        for (int l = n - q; l < L; ++l) e[l] = square[l] = 0;
      }
      auto seen = value == value;
      store(mu + q, seen ? e : Vec<T>{});
      if (gaussian) total += seen ? square : Vec<T>{};
    }
    if (gaussian) squares = hsum<T>(total);
  });
  return squares;
}

}  // namespace psgld::PSGLD_ISA
