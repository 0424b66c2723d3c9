// What a binding asks of its arguments before anything reads them: no index reaches a kernel unchecked. Each
// check is a single pass that the compiler can vectorise; none is made in the loop over iterations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace psgld {

inline void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(what);
}

// A number from `least` to `most`.
inline void require_between(int64_t number, int64_t least, int64_t most, const char* what) {
  if (number < least || number > most)
    throw std::invalid_argument(std::string(what) + " must be from " + std::to_string(least) + " to " +
                                std::to_string(most) + ", got " + std::to_string(number));
}

// Indices from 0 to size - 1.
template <class I>
void require_indices(std::span<const I> index, size_t size, const char* what) {
  I least = 0, most = 0;
  for (const I i : index) {
    least = std::min(least, i);
    most = std::max(most, i);
  }
  if (!index.empty() && (least < 0 || static_cast<uint64_t>(most) >= size))
    throw std::out_of_range(std::string(what) + " " + std::to_string(least < 0 ? least : most) +
                            " is out of range: there are " + std::to_string(size));
}

// Bounds of runs of `size` things: they begin at 0, do not fall, and end at `size`.
inline void require_bounds(std::span<const int64_t> bounds, size_t runs, size_t size, const char* what) {
  if (bounds.size() != runs + 1)
    throw std::invalid_argument(std::string(what) + ": expected " + std::to_string(runs + 1) +
                                " numbers, got " + std::to_string(bounds.size()));
  bool falls = false;
  for (size_t r = 0; r < runs; ++r) falls |= bounds[r + 1] < bounds[r];
  if (falls || bounds.front() != 0 || bounds.back() != static_cast<int64_t>(size))
    throw std::invalid_argument(std::string(what) + " must rise from 0 to " + std::to_string(size));
}

// Compressed rows of a matrix: where each row begins, and the columns of its entries.
inline void require_rows(std::span<const int64_t> start, std::span<const int32_t> index, size_t rows,
                         size_t columns) {
  require_bounds(start, rows, index.size(), "the starts of the rows");
  require_indices(index, columns, "column");
}

}  // namespace psgld
