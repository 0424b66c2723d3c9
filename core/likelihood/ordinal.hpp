// Ordinal, cumulative logit: P(v <= level l) = F(cut_l - eta), F(x) = 1 / (1 + exp(-x)). With the cuts below
// and above the level of v (-inf, inf at the ends)
//
//   P(v) = (1 - exp(below - above)) F(above - eta) F(eta - below),   score = F(above - eta) - F(eta - below)
//
// so nothing cancels, and the first factor, which has no eta, is left to the normaliser.
#pragma once

#include "likelihood/functor.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct Ordinal : Functor<T> {
  using V = Vec<T>;
  static constexpr const char* kName = "ordinal";
  static constexpr bool kPositive = false, kIdentity = false, kLattice = true;
  static constexpr T kFar = T(1e4);  // no cut: exp clamps
  int cuts;
  const T *level, *cut;  // one level more; of the likelihood, which outlives the functor
  explicit Ordinal(const Likelihood<T>& likelihood)
      : Functor<T>(likelihood),
        cuts(likelihood.parameter[0] >= T(2) && likelihood.parameter[0] <= T(32)
                 ? static_cast<int>(likelihood.parameter[0]) - 1
                 : 1),
        level(likelihood.parameter + 1),
        cut(level + cuts + 1) {}

  struct Ends {
    V below, above;
  };
  Ends ends(V v) const {
    Ends out{splat(-kFar), splat(cut[0])};
    for (int l = 0; l < cuts; ++l) {
      const auto higher = v > splat(T(0.5) * (level[l] + level[l + 1]));
      out.below = higher ? splat(cut[l]) : out.below;
      out.above = higher ? splat(l + 1 < cuts ? cut[l + 1] : kFar) : out.above;
    }
    return out;
  }
  // F(x); to both sides of 40 it is 0 or 1, and nothing overflows
  static V share(V x) { return vrecip<T>(T(1) + vexp(-vmax(vmin(x, splat(T(40))), splat(T(-40))))); }
  static V log_one_plus_exp(V x) { return vmax(x, splat(T(0))) + vlog1p<T>(vexp(-vabs(x))); }

  V positive(V v, V eta) const { return share(ends(v).above - eta); }
  V weight(V v, V eta) const { return share(eta - ends(v).below); }
  V score(V v, V eta) const {
    const Ends at = ends(v);
    return share(at.above - eta) - share(eta - at.below);
  }
  V kernel(V v, V eta) const {
    const Ends at = ends(v);
    return -log_one_plus_exp(eta - at.above) - log_one_plus_exp(at.below - eta);
  }

  static double tail(double x) { return 1.0 / (1.0 + std::exp(-x)); }
  static double soft(double x) { return (x > 0.0 ? x : 0.0) + std::log1p(std::exp(-std::abs(x))); }
  double response(double eta) const {
    double mean = level[0];
    for (int l = 0; l < cuts; ++l) mean += (level[l + 1] - level[l]) * tail(eta - cut[l]);
    return mean;
  }
  double log_kernel(double v, double eta) const {
    int l = 0;
    while (l < cuts && v > 0.5 * (level[l] + level[l + 1])) ++l;
    return -(l < cuts ? soft(eta - cut[l]) : 0.0) - (l > 0 ? soft(cut[l - 1] - eta) : 0.0);
  }
  double variance(double eta, double) const {
    const double mean = response(eta);
    double out = 0.0, above = 1.0;  // P(v >= level l)
    for (int l = 0; l <= cuts; ++l) {
      const double next = l < cuts ? tail(eta - cut[l]) : 0.0, away = level[l] - mean;
      out += (above - next) * away * away;
      above = next;
    }
    return out;
  }
  double draw(double eta, double, Stream& z) const {  // a logistic variable around eta, cut
    const double u = z.uniform(), x = eta + std::log(u / (1.0 - u));
    int l = 0;
    while (l < cuts && x > cut[l]) ++l;
    return level[l];
  }
};

}  // namespace psgld::PSGLD_ISA
