// Entries on their way to the strips of shards: a batch becomes records grouped by strip, to be written to a
// file; the records of a strip, read back, become entries with their final indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "common/checks.hpp"

namespace psgld {

template <class Value>
struct Record {
  std::int32_t row, col;  // codes
  Value value;
};
static_assert(sizeof(Record<float>) == 12 && sizeof(Record<double>) == 16);

struct Grouped {
  std::unique_ptr<std::byte[]> records;
  std::vector<std::int64_t> bounds;  // of the strips, in records
  std::size_t bytes = 0;
  bool single = true;  // float32 holds every value exactly: the records are Record<float>
};

namespace detail {

template <class Stored, class Value>
void scatter(std::span<const std::uint16_t> strips, std::span<const std::int32_t> rows,
             std::span<const std::int32_t> cols, std::span<const Value> values, Grouped& out) {
  out.bytes = rows.size() * sizeof(Record<Stored>);
  out.records = std::make_unique_for_overwrite<std::byte[]>(out.bytes);
  auto* const to = reinterpret_cast<Record<Stored>*>(out.records.get());
  std::vector<std::int64_t> next(out.bounds.begin(), out.bounds.end());
  for (std::size_t p = 0; p < rows.size(); ++p)
    to[next[strips[rows[p]]]++] = {rows[p], cols[p], static_cast<Stored>(values[p])};
}

}  // namespace detail

// A counting sort by strip that keeps the order within a strip. `strips` is the strip of each row code; the
// counts of rows and columns, one a code, go up by the entries of the batch.
template <class Value>
Grouped group_entries(std::span<const std::uint16_t> strips, std::span<const std::int32_t> rows,
                      std::span<const std::int32_t> cols, std::span<const Value> values, int blocks,
                      std::span<std::int64_t> row_counts, std::span<std::int64_t> col_counts) {
  if (cols.size() != rows.size() || values.size() != rows.size() || row_counts.size() > strips.size())
    throw std::length_error("lengths differ");
  require_indices(rows, row_counts.size(), "row code");
  require_indices(cols, col_counts.size(), "column code");
  Grouped out;
  out.bounds.assign(static_cast<std::size_t>(blocks) + 1, 0);
  for (std::size_t p = 0; p < rows.size(); ++p) {
    const auto row = static_cast<std::size_t>(rows[p]), col = static_cast<std::size_t>(cols[p]);
    if (strips[row] >= blocks) throw std::out_of_range("no such strip");
    ++row_counts[row];
    ++col_counts[col];
    ++out.bounds[strips[row] + 1];
  }
  for (int b = 0; b < blocks; ++b) out.bounds[b + 1] += out.bounds[b];
  if constexpr (sizeof(Value) > sizeof(float))
    for (const Value v : values) out.single &= static_cast<Value>(static_cast<float>(v)) == v;
  out.single ? detail::scatter<float>(strips, rows, cols, values, out)
             : detail::scatter<double>(strips, rows, cols, values, out);
  return out;
}

// Appends the records of the rows at the places [first, last) of a strip to entries of which `done` are there
// already: the row's place counted from `first`, the column's index, the value. Returns how many there are
// then.
template <class Stored, class Value>
std::size_t place_entries(std::span<const std::byte> records, std::span<const std::int32_t> place,
                          std::span<const std::int32_t> index, std::int32_t first, std::int32_t last,
                          std::span<std::int32_t> rows, std::span<std::int32_t> cols, std::span<Value> values,
                          std::size_t done) {
  if (rows.size() != cols.size() || values.size() != cols.size()) throw std::length_error("lengths differ");
  if (records.size() % sizeof(Record<Stored>)) throw std::length_error("a record is cut short");
  if (done > rows.size()) throw std::length_error("more entries than were counted");
  if (first < 0 || last < first) throw std::invalid_argument("no such places");
  const std::span from(reinterpret_cast<const Record<Stored>*>(records.data()),
                       records.size() / sizeof(Record<Stored>));
  for (const auto& record : from) {
    const auto row = static_cast<std::size_t>(record.row), col = static_cast<std::size_t>(record.col);
    if (row >= place.size() || col >= index.size()) throw std::out_of_range("a code is not known");
    if (place[row] < first || place[row] >= last) continue;
    if (done == rows.size()) throw std::length_error("more entries than were counted");
    rows[done] = place[row] - first;
    cols[done] = index[col];
    values[done++] = static_cast<Value>(record.value);
  }
  return done;
}

}  // namespace psgld
