// The other members of the Tweedie family, beta < 0: tilted positive stable variables. New observations of
// them are drawn in Python.
#pragma once

#include "likelihood/power.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
struct PositiveStable : PowerFamily<T> {
  using PowerFamily<T>::PowerFamily;
  static constexpr const char* kName = "positive-stable";
  static constexpr bool kDraws = false;
};

}  // namespace psgld::PSGLD_ISA
