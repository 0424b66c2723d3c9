// Sums over strips, in an order that is the same whoever has the strips: those of each of a few groups of
// neighbours, then the groups. A thread has neighbours in its cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace psgld {

constexpr size_t kGroups = 8;

// Adds up the rows of a group of a table, `stride` numbers apart, of each the first `width`.
inline void add_group(const double* table, size_t rows, size_t stride, size_t width, size_t group,
                      double* __restrict out) {
  std::fill_n(out, width, 0.0);
  for (size_t r = rows * group / kGroups; r < rows * (group + 1) / kGroups; ++r)
    for (size_t k = 0; k < width; ++k) out[k] += table[r * stride + k];
}

// The same of the sums of all groups, (kGroups, stride).
inline void add_groups(const double* groups, size_t stride, size_t width, double* __restrict out) {
  std::fill_n(out, width, 0.0);
  for (size_t g = 0; g < kGroups; ++g)
    for (size_t k = 0; k < width; ++k) out[k] += groups[g * stride + k];
}

// All rows of a table.
inline void add_grouped(const double* table, size_t rows, size_t width, double* out) {
  std::vector<double> groups(kGroups * width);
  for (size_t g = 0; g < kGroups; ++g) add_group(table, rows, width, width, g, &groups[g * width]);
  add_groups(groups.data(), width, width, out);
}

}  // namespace psgld
