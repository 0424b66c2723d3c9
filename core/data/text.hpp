// Entries from lines of text, the plain ones only: integers without leading zeros as labels, decimal numbers
// as values. Anything else is left to a reader that is slower and knows more.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace psgld {

struct TextEntries {
  std::unique_ptr<std::int64_t[]> rows, cols;
  std::unique_ptr<double[]> values;
  std::int64_t size = 0;
};

namespace detail {

inline bool digit(char c) { return c >= '0' && c <= '9'; }

// -?(0|[1-9][0-9]*), of 18 digits at most.
inline bool parse_label(std::string_view field, std::int64_t& label) {
  const bool minus = !field.empty() && field[0] == '-';
  if (minus) field.remove_prefix(1);
  if (field.empty() || field.size() > 18 || (field[0] == '0' && (field.size() > 1 || minus))) return false;
  label = 0;
  for (const char c : field) {
    if (!digit(c)) return false;
    label = 10 * label + (c - '0');
  }
  if (minus) label = -label;
  return true;
}

// -?[0-9]*(.[0-9]*)?(e[+-]?[0-9]+)? with few digits: then digits and power of ten are exact in double, and so
// their product or quotient is rounded only once, as it should be.
inline bool parse_value(std::string_view field, double& value) {
  static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *at = field.data(), *const end = at + field.size();
  const bool minus = at < end && *at == '-';
  if (minus) ++at;
  std::int64_t digits = 0;
  int seen = 0, exponent = 0;
  for (; at < end && digit(*at); ++at, ++seen) {
    if (seen > 15) return false;
    digits = 10 * digits + (*at - '0');
  }
  if (at < end && *at == '.')
    for (++at; at < end && digit(*at); ++at, ++seen, --exponent) {
      if (seen > 15) return false;
      digits = 10 * digits + (*at - '0');
    }
  if (seen == 0 || seen > 15) return false;
  if (at < end && (*at == 'e' || *at == 'E')) {
    const bool down = ++at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) ++at;
    int power = 0;
    const char* const first = at;
    for (; at < end && digit(*at) && at - first < 4; ++at) power = 10 * power + (*at - '0');
    if (at == first) return false;
    exponent += down ? -power : power;
  }
  if (at != end || exponent < -22 || exponent > 22) return false;
  const auto whole = static_cast<double>(digits);
  value = exponent < 0 ? whole / powers[-exponent] : whole * powers[exponent];
  if (minus) value = -value;
  return true;
}

}  // namespace detail

// Reads fields number row, col and value (from 0) of every line that is not empty. False if a line is not a
// plain one, of at most `width` fields.
inline bool parse_entries(std::string_view text, std::string_view delimiter,
                          const std::array<int, 3>& columns, int width, TextEntries& out) {
  const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
  out.rows = std::make_unique_for_overwrite<std::int64_t[]>(lines);
  out.cols = std::make_unique_for_overwrite<std::int64_t[]>(lines);
  out.values = std::make_unique_for_overwrite<double[]>(lines);
  const int fields = 1 + std::max({columns[0], columns[1], columns[2]});
  std::vector<std::string_view> found(fields);
  while (!text.empty()) {
    const std::size_t length = text.find('\n');
    std::string_view line = text.substr(0, length);
    text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.find('"') != std::string_view::npos) return false;
    for (int n = 0;; ++n) {
      const std::size_t end = line.find(delimiter);
      if (n < fields) found[n] = line.substr(0, end);
      if (end == std::string_view::npos) {
        if (n + 1 < fields || n >= width) return false;
        break;
      }
      line.remove_prefix(end + delimiter.size());
    }
    if (!detail::parse_label(found[columns[0]], out.rows[out.size]) ||
        !detail::parse_label(found[columns[1]], out.cols[out.size]) ||
        !detail::parse_value(found[columns[2]], out.values[out.size]))
      return false;
    ++out.size;
  }
  return true;
}

}  // namespace psgld
