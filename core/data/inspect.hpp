// Compressed rows of which nobody knows who wrote them: every index and value is looked at, once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>

namespace psgld {

enum class Fault : int { none, index, order, value };

struct Inspected {
  Fault fault = Fault::none;
  std::int64_t at = -1;  // the entry at fault
  double total = 0, deviation = 0;
  double least = std::numeric_limits<double>::infinity(), largest = -least;
};

// Sums of n values, and of their squared distances from their mean, with several sums at a time.
template <class Value>
void add_moments(const Value* value, std::int64_t n, std::int64_t before, Inspected& sums) {
  constexpr int kSums = 8;
  auto sum = [&](auto&& f) {
    double parts[kSums] = {};
    std::int64_t q = 0;
    for (; q + kSums <= n; q += kSums)
      for (int l = 0; l < kSums; ++l) parts[l] += f(static_cast<double>(value[q + l]));
    for (; q < n; ++q) parts[0] += f(static_cast<double>(value[q]));
    double all = 0;
    for (double part : parts) all += part;
    return all;
  };
  const double total = sum([](double v) { return v; }), mean = total / n;
  const double between = before ? mean - sums.total / before : 0;
  sums.deviation += sum([&](double v) { return (v - mean) * (v - mean); }) +
                    between * between * (static_cast<double>(before) * n / static_cast<double>(before + n));
  sums.total += total;
}

// Columns within [0, columns), increasing within each row; finite values. Adds to `counts` the entries of
// each strip of columns, and returns the first fault, or none and the moments of the values.
template <class Value>
Inspected inspect_rows(std::span<const std::int64_t> start, std::span<const std::int32_t> index,
                       std::span<const Value> value, std::span<const std::uint16_t> strips,
                       std::span<std::int64_t> counts) {
  if (start.empty() || start[0] != 0 || start.back() != static_cast<std::int64_t>(index.size()) ||
      index.size() != value.size() || !std::is_sorted(start.begin(), start.end()))
    throw std::invalid_argument("rows that do not end with the entries");
  if (std::any_of(strips.begin(), strips.end(), [&](auto strip) { return strip >= counts.size(); }))
    throw std::invalid_argument("no such strip");
  Inspected found;
  for (std::size_t r = 0; r + 1 < start.size(); ++r) {
    std::int64_t before = -1;
    for (std::int64_t q = start[r]; q < start[r + 1]; ++q) {
      const std::int64_t column = index[q];
      const double v = value[q];
      found.fault = column < 0 || column >= static_cast<std::int64_t>(strips.size()) ? Fault::index
                    : column <= before                                               ? Fault::order
                    : !std::isfinite(v)                                              ? Fault::value
                                                                                     : Fault::none;
      if (found.fault != Fault::none) {
        found.at = q;
        return found;
      }
      before = column;
      ++counts[strips[column]];
      found.least = std::min(found.least, v);
      found.largest = std::max(found.largest, v);
    }
  }
  const auto size = static_cast<std::int64_t>(value.size());
  for (std::int64_t q = 0; q < size; q += 4096)
    add_moments(value.data() + q, std::min<std::int64_t>(4096, size - q), q, found);
  return found;
}

}  // namespace psgld
