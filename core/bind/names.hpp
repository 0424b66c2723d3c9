// Enumerators by the names that Python knows them by, in their order.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "common/kernels.hpp"
#include "data/csr.hpp"
#include "data/inspect.hpp"
#include "predict/kernels.hpp"

namespace psgld {

inline constexpr std::string_view kMetricNames[] = {"identity", "non-negative", "real-valued"};
inline constexpr std::string_view kPassNames[] = {"langevin", "score", "weight"};
inline constexpr std::string_view kScoreNames[] = {"mean", "sd", "above", "bound"};
inline constexpr std::string_view kDuplicatesNames[] = {"error", "sum", "mean", "last"};
inline constexpr std::string_view kFaultNames[] = {"none", "index", "order", "value"};

template <class E, size_t N>
E named(const std::string_view (&names)[N], std::string_view name, const char* what) {
  for (size_t n = 0; n < N; ++n)
    if (names[n] == name) return static_cast<E>(n);
  throw std::invalid_argument("there is no " + std::string(what) + " \"" + std::string(name) + "\"");
}

inline Metric metric_named(std::string_view name) { return named<Metric>(kMetricNames, name, "metric"); }
inline Duplicates duplicates_named(std::string_view name) {
  return named<Duplicates>(kDuplicatesNames, name, "treatment of duplicates");
}
inline const char* name_of(Fault fault) { return kFaultNames[static_cast<size_t>(fault)].data(); }
inline ScoreKind score_named(std::string_view name) { return named<ScoreKind>(kScoreNames, name, "score"); }

// Of the passes that add up and leave the factors alone.
inline Pass sum_named(std::string_view name) {
  const Pass pass = named<Pass>(kPassNames, name, "sum");
  if (pass == Pass::langevin) throw std::invalid_argument("there is no sum \"langevin\"");
  return pass;
}

}  // namespace psgld
