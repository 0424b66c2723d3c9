// How sparse blocks lie in a file, and what is checked before a file is used. Whoever can write the file can
// write its checksum, too: so that no contents can crash the process, every index is checked as well.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "common/kernels.hpp"

namespace psgld {

constexpr size_t kLine = 64;         // sections are whole cache lines, as the kernels like them,
constexpr size_t kFileSlack = 512;   // with slack for their last vector; and more behind the last one,
constexpr size_t kDigestBytes = 64;  // and then the checksum

constexpr size_t section_bytes(size_t bytes) { return (bytes + kLine + kLine - 1) / kLine * kLine; }

// The sections of a block: starts of the rows of each tile, values, indices, rows within the panel. In bytes,
// unpadded.
template <class T>
constexpr std::array<size_t, 4> block_sections(const Block<T>& block, size_t index_bytes) {
  const size_t entries = block.entries, starts = static_cast<size_t>(block.tiles) * block.rows + 1;
  return {4 * starts, sizeof(T) * entries, index_bytes * entries, entries};
}

// A checksum at the speed of memory: eight lanes, whose steps are one-to-one, so that no change of a single
// word goes unseen. It finds damage, not forgery. The key makes files of other data other files.
class Digest {
 public:
  explicit Digest(const std::string& key) { std::memcpy(lanes_.data(), key.data(), kDigestBytes); }

  void add(const std::byte* from, size_t bytes) {  // whole lines
    auto lanes = lanes_;
    for (const std::byte* end = from + bytes; from != end; from += kLine) {
      std::array<uint64_t, 8> words;
      std::memcpy(words.data(), from, kLine);
      for (int l = 0; l < 8; ++l) lanes[l] = std::rotl((lanes[l] ^ words[l]) * 0x9e3779b97f4a7c15u, 29);
    }
    lanes_ = lanes;
  }
  void write(std::byte* to) const { std::memcpy(to, lanes_.data(), kDigestBytes); }
  bool matches(const std::byte* from) const { return !std::memcmp(from, lanes_.data(), kDigestBytes); }

 private:
  std::array<uint64_t, 8> lanes_;
};

template <class Index>
bool all_below(const Index* index, int64_t n, uint32_t bound) {
  uint32_t bad = 0;
  for (int64_t q = 0; q < n; ++q) bad |= index[q] >= bound;
  return !bad;
}

template <class T>
bool all_finite(const T* value, int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const Bits exponent = sizeof(T) == 4 ? Bits{0x7f800000u} : static_cast<Bits>(0x7ff0000000000000u);
  Bits bad = 0;
  for (int64_t q = 0; q < n; ++q) bad |= (std::bit_cast<Bits>(value[q]) & exponent) == exponent;
  return !bad;
}

inline bool all_zero(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte b) { return b == std::byte{}; });
}

// What is wrong with a block that somebody else may have written; null if the kernels can work on it.
template <class T>
const char* block_fault(const Block<T>& k) {
  const size_t starts = static_cast<size_t>(k.tiles) * k.rows;
  bool bad = k.start[0] != 0 || k.start[starts] != k.entries;
  for (size_t s = 0; s < starts; ++s) bad |= k.start[s] > k.start[s + 1];
  if (bad) return "rows that overlap";
  uint32_t off = 0;
  for (int t = 0; t < k.tiles; ++t) {
    const uint32_t* start = k.tile(t).start;
    for (int r = 0; r < k.rows; ++r)
      for (uint32_t q = start[r]; q < start[r + 1]; ++q) off |= k.tile_row[q] ^ (r % kPanelRows);
  }
  if (off) return "an entry of another row";
  const uint32_t columns = k.columns;
  if (!(k.index16 ? all_below(k.index16, k.entries, columns) : all_below(k.index32, k.entries, columns)))
    return "an index out of range";
  return all_finite(k.value, k.entries) ? nullptr : "a value that is not finite";
}

// The same of all bytes of a block, padding included, which are added to the checksum.
template <class T>
const char* scan_block(const Block<T>& block, Digest& digest) {
  const auto* at = reinterpret_cast<const std::byte*>(block.start);
  bool padding = true;
  for (size_t used : block_sections(block, block.index16 ? 2 : 4)) {
    const size_t bytes = section_bytes(used);
    padding &= all_zero(at + used, at + bytes);
    digest.add(at, bytes);
    at += bytes;
  }
  return padding ? block_fault(block) : "padding that is not zero";
}

}  // namespace psgld
