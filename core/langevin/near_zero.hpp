// The coordinate near zero of a coefficient whose prior has shape a < 1: the density x^(a-1), or u^(2a-1) of
// u = sqrt(x), has no bound there, and no step is short enough for its force. With p = a or p = 2a,
//
//   y = x where x >= e,   y = e + e ((x/e)^p - 1) / p below it,   so dx/dy = (x/e)^(1-p)
//
// has a constant prior density below e, and so no force but that of the data: a step there has no error, and
// what is drawn below e has exactly the prior's distribution. y ends at e - e/p, where it is mirrored. e is
// two standard steps.
#pragma once

#include <limits>

#include "common/kernels.hpp"
#include "simd/lanes.hpp"

namespace psgld::PSGLD_ISA {

constexpr int kNearZeroSteps = 2;

template <class T>
struct NearZero {
  T power, least;

  // At temperature tau the density is x^((a-1)/tau).
  NearZero(const Rule<T>& rule, bool of_root)
      : power((of_root ? 2 : 1) * (1 + (rule.temperature > 0 ? rule.inverse / rule.temperature : T(-1)))),
        least(power > T(0.01) ? 1 - 1 / power : T(0)),
        applies_(rule.inverse < 0 && power > T(0.01)) {}

  bool applies() const { return applies_; }

  struct Place {
    Vec<T> y, slope;  // slope: dx/dy, of use below the edge only
  };
  Place enter(Vec<T> x, Vec<T> edge) const {
    if (!any_lane((VecI)(x < edge))) return {x, splat<T>(1)};  // what the rest returns there
    const Vec<T> share = vmin(vmax(x / edge, splat<T>(T(1e-18))), splat<T>(1));
    const Vec<T> raised = vpow<T>(share, power);
    return {x < edge ? edge * (T(1) + (raised - T(1)) / power) : x, share / raised};
  }

  // Mirrored at the end, as is the momentum.
  Vec<T> leave(Vec<T> y, Vec<T>& m, Vec<T> edge) const {
    const Vec<T> end = least * edge;
    m = y < end ? -m : m;
    y = y < end ? T(2) * end - y : y;
    if (!any_lane((VecI)(y < edge))) return y;
    const Vec<T> raised = vmax(T(1) + power * (y / edge - T(1)), splat<T>(T(1e-30)));
    return y < edge ? edge * vpow<T>(vmin(raised, splat<T>(1)), 1 / power) : y;
  }

 private:
  bool applies_;
};

}  // namespace psgld::PSGLD_ISA
