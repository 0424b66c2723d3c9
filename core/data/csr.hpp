// Canonical compressed rows (CSR) from loose entries: rows in order, columns sorted in each row, no pair
// twice.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace psgld {

// What to do with several entries for the same (row, column) pair.
enum class Duplicates : int { error, sum, mean, last };

template <class Value>
struct Csr {
  std::unique_ptr<std::int64_t[]> indptr;   // n_rows + 1
  std::unique_ptr<std::int32_t[]> indices;  // size
  std::unique_ptr<Value[]> values;          // size
  std::int64_t size = 0;
  std::int64_t n_duplicates = 0;                // entries beyond the first of their pair
  std::int64_t first_row = -1, first_col = -1;  // the first pair given twice, in row-major order
};

struct NonFinite {
  std::int64_t count = 0;
  std::int64_t first = -1;
};

// Counts NaN and infinities by their exponent bits: right under any floating-point compiler flag.
template <class Value>
NonFinite find_non_finite(std::span<const Value> values) {
  using Bits = std::conditional_t<sizeof(Value) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits exponent = std::bit_cast<Bits>(std::numeric_limits<Value>::infinity());
  const auto bad = [](Value v) { return (std::bit_cast<Bits>(v) & exponent) == exponent; };
  NonFinite found;
  found.count = std::count_if(values.begin(), values.end(), bad);
  if (found.count > 0) found.first = std::find_if(values.begin(), values.end(), bad) - values.begin();
  return found;
}

namespace detail {

// Sorts one row by column, keeping the input order of equal columns. The buffers are reused between rows.
template <class Value>
class RowSorter {
 public:
  explicit RowSorter(std::int64_t n_cols) : col_bits_(std::bit_width(static_cast<std::uint64_t>(n_cols))) {}

  void operator()(std::int32_t* cols, Value* values, std::size_t n) {
    if (std::is_sorted(cols, cols + n)) return;
    // The position in the low half makes every key distinct, so that an unstable sort is stable.
    keys_.resize(n);
    for (std::size_t p = 0; p < n; ++p) keys_[p] = static_cast<std::uint64_t>(cols[p]) << 32 | p;
    n < radix_from ? std::sort(keys_.begin(), keys_.end()) : radix_sort();
    values_.assign(values, values + n);
    for (std::size_t p = 0; p < n; ++p) {
      cols[p] = static_cast<std::int32_t>(keys_[p] >> 32);
      values[p] = values_[keys_[p] & 0xffffffffu];
    }
  }

 private:
  static constexpr std::size_t radix_from = 64;  // below, clearing the 256 counters costs more than it saves

  // Least significant byte of the column first, as many bytes as the largest column number has.
  void radix_sort() {
    other_.resize(keys_.size());
    for (int shift = 32; shift < 32 + col_bits_; shift += 8) {
      std::uint32_t start[257] = {};
      for (const auto key : keys_) ++start[(key >> shift & 0xff) + 1];
      for (int d = 0; d < 256; ++d) start[d + 1] += start[d];
      for (const auto key : keys_) other_[start[key >> shift & 0xff]++] = key;
      keys_.swap(other_);
    }
  }

  int col_bits_;
  std::vector<std::uint64_t> keys_, other_;
  std::vector<Value> values_;
};

// Makes one value of the run [first, last) of entries of the same pair, given in input order.
template <class Value>
Value merge_run(const Value* first, const Value* last, Duplicates policy) {
  if (policy == Duplicates::last) return last[-1];
  double sum = 0;
  for (const Value* v = first; v < last; ++v) sum += *v;
  return static_cast<Value>(policy == Duplicates::mean ? sum / static_cast<double>(last - first) : sum);
}

// Merges the runs of equal columns of sorted rows in place, and closes the gaps.
// Under Duplicates::error it only counts.
template <class Value>
void merge_duplicates(Csr<Value>& csr, std::int64_t n_rows, Duplicates policy) {
  std::int64_t out = 0, begin = 0;
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const std::int64_t end = csr.indptr[row + 1];
    for (std::int64_t p = begin; p < end;) {
      const std::int32_t col = csr.indices[p];
      std::int64_t next = p + 1;
      while (next < end && csr.indices[next] == col) ++next;
      if (next - p > 1 && csr.n_duplicates == 0) csr.first_row = row, csr.first_col = col;
      csr.n_duplicates += next - p - 1;
      if (policy != Duplicates::error && (next - p > 1 || out != p)) {
        csr.values[out] = merge_run(&csr.values[p], &csr.values[next - 1] + 1, policy);
        csr.indices[out] = col;
      }
      ++out;
      p = next;
    }
    begin = end;
    if (policy != Duplicates::error) csr.indptr[row + 1] = out;
  }
  if (policy != Duplicates::error) csr.size = out;
}

}  // namespace detail

// Counting sort by row, then a stable sort of each row that needs one: O(n + n_rows) when the columns come
// in order. Needs no memory beyond the result but a buffer as long as the longest row.
template <class Index, class Value>
Csr<Value> canonical_csr(std::span<const Index> rows, std::span<const Index> cols,
                         std::span<const Value> values, std::int64_t n_rows, std::int64_t n_cols,
                         Duplicates policy) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (n_rows < 0 || n_cols < 0 || n_rows > most || n_cols > most)
    throw std::length_error("shape out of range");
  if (cols.size() != rows.size() || values.size() != rows.size()) throw std::length_error("lengths differ");
  const std::size_t n = rows.size();

  Csr<Value> csr;
  csr.size = static_cast<std::int64_t>(n);
  csr.indptr = std::make_unique<std::int64_t[]>(n_rows + 1);
  csr.indices = std::make_unique_for_overwrite<std::int32_t[]>(n);
  csr.values = std::make_unique_for_overwrite<Value[]>(n);
  std::int64_t* const indptr = csr.indptr.get();

  for (std::size_t p = 0; p < n; ++p) {
    if (rows[p] < 0 || rows[p] >= n_rows || cols[p] < 0 || cols[p] >= n_cols)
      throw std::out_of_range("an index lies outside the shape");
    ++indptr[rows[p] + 1];
  }
  for (std::int64_t row = 0; row < n_rows; ++row) {
    if (indptr[row + 1] > most) throw std::length_error("a row has more than 2^31 - 1 entries");
    indptr[row + 1] += indptr[row];
  }
  // While the entries are placed indptr[row] is the row's cursor; it ends as the start of the next row.
  for (std::size_t p = 0; p < n; ++p) {
    const std::int64_t at = indptr[rows[p]]++;
    csr.indices[at] = static_cast<std::int32_t>(cols[p]);
    csr.values[at] = values[p];
  }
  std::copy_backward(indptr, indptr + n_rows, indptr + n_rows + 1);
  indptr[0] = 0;

  detail::RowSorter<Value> sort_row(n_cols);
  for (std::int64_t row = 0; row < n_rows; ++row)
    sort_row(&csr.indices[indptr[row]], &csr.values[indptr[row]], indptr[row + 1] - indptr[row]);
  detail::merge_duplicates(csr, n_rows, policy);
  return csr;
}

}  // namespace psgld
