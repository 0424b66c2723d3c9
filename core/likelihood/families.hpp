// What the families are, for code that does not depend on the instruction set; and their names, by which
// Python knows them.
#pragma once

#include <span>
#include <string_view>

#include "common/kernels.hpp"

namespace psgld {

// The constants of a functor (functor.hpp), at run time.
struct Traits {
  const char* name;
  bool positive, unit_weight, squares;
  Zeros zeros;
  bool identity, additive, lattice, draws, tries;
  int words;
};

// By their place in the registry, which is the `family` of a likelihood.
std::span<const Traits> families();

// The place of the family of that name; raises std::invalid_argument if there is none.
int family_named(std::string_view name);

// A likelihood of doubles with these parameters.
Likelihood<double> likelihood_of(int family, const double* parameters, int n, double floor);

}  // namespace psgld
