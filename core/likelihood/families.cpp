#include "likelihood/families.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "likelihood/scalar.hpp"

namespace psgld {

std::span<const Traits> families() { return scalar::kTraits; }

int family_named(std::string_view name) {
  for (size_t at = 0; at < families().size(); ++at)
    if (name == families()[at].name) return static_cast<int>(at);
  throw std::invalid_argument("no family is called '" + std::string(name) + "' (likelihood/registry.hpp)");
}

Likelihood<double> likelihood_of(int family, const double* parameters, int n, double floor) {
  Likelihood<double> out{family, {}, floor, false};
  std::copy_n(parameters, n, out.parameter);
  return out;
}

}  // namespace psgld
