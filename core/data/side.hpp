// How the rows of one factor are laid out: strip after strip.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/aligned.hpp"
#include "common/checks.hpp"
#include "common/kernels.hpp"

namespace psgld {

// One side of the grid: the rows of one factor, strip after strip, each padded to whole tiles. It may hold
// fewer rows than V has.
template <class T>
struct Side {
  static constexpr uint32_t kElsewhere = ~uint32_t{0};
  static constexpr size_t kMostStrips = 1 << 16;

  std::vector<int> rows, first;        // of each strip: its length, the position of its first row
  std::vector<uint32_t> strip, local;  // of each original index; kElsewhere if it is in no strip here
  Aligned<uint32_t> ids;               // original index at each position
  Aligned<T> counts;                   // observed entries at each position
  size_t positions = 0;

  // Of all `size` rows, or of those that `order` names: each once.
  Side(std::span<const int64_t> order, std::span<const int64_t> bounds, size_t size)
      : strip(size, kElsewhere), local(size, kElsewhere) {
    require(bounds.size() > 1 && bounds.size() <= kMostStrips, "1 to 65535 strips");
    require_bounds(bounds, bounds.size() - 1, order.size(), "the bounds of the strips");
    require_indices(order, size, "row of a strip");
    // Places are ints, with the padding of each strip.
    require(size + kRowTile * bounds.size() <= std::numeric_limits<int>::max(), "too many rows");
    for (size_t b = 0; b + 1 < bounds.size(); ++b) {
      const int n = static_cast<int>(bounds[b + 1] - bounds[b]);
      require(n > 0, "a strip without rows");
      rows.push_back(n);
      first.push_back(static_cast<int>(positions));
      positions += (n + kRowTile - 1) / kRowTile * kRowTile;
    }
    ids = Aligned<uint32_t>(positions);
    counts = Aligned<T>(positions);
    for (size_t b = 0; b < rows.size(); ++b)
      for (int r = 0; r < rows[b]; ++r) {
        const auto id = static_cast<uint32_t>(order[bounds[b] + r]);
        require(strip[id] == kElsewhere, "a row in two strips");
        strip[id] = static_cast<uint32_t>(b);
        local[id] = static_cast<uint32_t>(r);
        ids[first[b] + r] = id;
      }
  }
  size_t size() const { return strip.size(); }                                        // of V
  bool whole() const { return std::ranges::find(strip, kElsewhere) == strip.end(); }  // all of V
  bool here(size_t id) const { return strip[id] != kElsewhere; }
  size_t position(size_t id) const { return first[strip[id]] + local[id]; }
};

}  // namespace psgld
