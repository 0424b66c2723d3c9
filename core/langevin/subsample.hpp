// Entries drawn from rows of a block, uniformly and with replacement, as a small sparse block: what the
// gradient of SGLD is made of. Draw d of a stream at iteration t is a function of (key, t, stream, d) alone.
//
//   counter = (d / 2, 1 << 30 | stream, t mod 2^32, t / 2^32),   four words out -> the 64 bits of d and d + 1
//
// (The noise never sets bit 30 of its second word.) The draws are sorted, so that the block is read in order
// and its rows come out in order, by one counting pass over as many bins as there are draws: they are
// uniform, so a bin holds about one.
#pragma once

#include <algorithm>
#include <bit>

#include "langevin/kernels.hpp"
#include "langevin/scratch.hpp"
#include "random/philox.hpp"

namespace psgld::PSGLD_ISA {

// Writes up to 2 kLanes words past the n that are asked for.
inline void uniform_words(uint32_t stream, uint64_t t, uint64_t key, int n, uint64_t* out) {
  constexpr int L = kLanes<uint32_t>;
  const RoundKeys keys(key);
  const VecU part = splat<uint32_t>(uint32_t{1} << 30 | stream);
  alignas(64) uint32_t counter[L], w[4][L];
  for (int d = 0; d < n; d += 2 * L) {
    for (int l = 0; l < L; ++l) counter[l] = static_cast<uint32_t>(d / 2 + l);
    VecU words[4];
    philox(load(counter), part, t, keys, words);
    for (int q = 0; q < 4; ++q) store(w[q], words[q]);
    for (int l = 0; l < L; ++l) {
      out[d + 2 * l] = static_cast<uint64_t>(w[0][l]) << 32 | w[1][l];
      out[d + 2 * l + 1] = static_cast<uint64_t>(w[2][l]) << 32 | w[3][l];
    }
  }
}

// Sorts n uniform words by their leading bits, then what is left by insertion. (Equal words are equal
// entries: their order is nothing.)
inline void sort_uniform(uint64_t* words, int n, uint64_t* sorted, uint32_t* bins) {
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<uint32_t>(n))));
  const uint32_t size = uint32_t{1} << bits;
  std::fill_n(bins, size + 1, 0u);
  for (int d = 0; d < n; ++d) ++bins[(words[d] >> (64 - bits)) + 1];
  for (uint32_t b = 0; b < size; ++b) bins[b + 1] += bins[b];
  for (int d = 0; d < n; ++d) {
    const uint64_t w = words[d];
    sorted[bins[w >> (64 - bits)]++] = w;
  }
  for (int d = 1; d < n; ++d) {
    const uint64_t w = sorted[d];
    int at = d;
    for (; at > 0 && sorted[at - 1] > w; --at) sorted[at] = sorted[at - 1];
    sorted[at] = w;
  }
}

// Where the n-th entry of a row is, tile after tile.
template <class T>
inline uint32_t nth_of_row(const Block<T>& block, int row, uint32_t n) {
  const uint32_t* start = block.start + row;
  for (uint32_t here; n >= (here = start[1] - start[0]); start += block.rows) n -= here;
  return start[0] + n;
}

// Entries of the rows [first, last) of a block. If cells are drawn, the columns of a sparse block must be in
// order in each row.
template <class T>
inline Block<T> subsample_rows(const Block<T>& block, int first, int last, const Drawing<T>& drawing,
                               ThreadScratch* scratch) {
  const auto [cells, zero_weight, n, stream, t, key] = drawing;
  const bool by_cell = block.dense || cells;
  const size_t room = static_cast<size_t>(n) + 2 * kLanes<uint32_t>;
  auto* words = scratch->words.get<uint64_t>(2 * room);
  uint64_t* sorted = words + room;
  auto* start = scratch->start.get<uint32_t>(block.rows + 1);
  auto* index = scratch->index.get<uint32_t>(n);
  auto* tile_row = scratch->tile_row.get<uint8_t>(n);
  auto* value = scratch->value.get<T>(n);
  T* weight = block.weight ? scratch->weight.get<T>(n) : nullptr;
  uniform_words(stream, t, key, n, words);
  sort_uniform(words, n, sorted, scratch->bins.get<uint32_t>(static_cast<size_t>(2) * n + 4));

  auto before = [&](int row) {  // the entries of all rows before this one
    return by_cell ? static_cast<uint64_t>(row) * block.columns : static_cast<uint64_t>(block.row_start[row]);
  };
  auto stored_index = [&](uint32_t q) {
    return block.index16 ? static_cast<uint32_t>(block.index16[q]) : block.index32[q];
  };
  const uint64_t from = before(first), range = before(last) - from;
  int row = first;
  start[first] = 0;
  uint64_t row_end = before(first + 1);
  for (int d = 0; d < n; ++d) {
    const uint64_t entry =
        from + static_cast<uint64_t>((static_cast<unsigned __int128>(sorted[d]) * range) >> 64);
    while (entry >= row_end) {
      start[++row] = static_cast<uint32_t>(d);
      row_end = before(row + 1);
    }
    tile_row[d] = static_cast<uint8_t>(row % kPanelRows);
    if (!by_cell) {
      const uint32_t at = nth_of_row(block, row, static_cast<uint32_t>(entry - before(row)));
      index[d] = stored_index(at);
      value[d] = block.value[at];
      if (weight) weight[d] = block.weight[at];
      continue;
    }
    const auto column = static_cast<uint32_t>(entry - before(row));
    index[d] = column;
    if (block.dense) {
      const size_t at = static_cast<size_t>(row) * block.leading + column;
      value[d] = block.dense[at];
      if (weight) weight[d] = block.weight[at];
    } else {
      const uint32_t* range =
          block.start + static_cast<size_t>(block.tiles > 1 ? column / kTileColumns : 0) * block.rows + row;
      uint32_t low = range[0], high = range[1];
      while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (stored_index(middle) < column)
          low = middle + 1;
        else
          high = middle;
      }
      const bool stored = low < range[1] && stored_index(low) == column;
      value[d] = stored ? block.value[low] : T(0);
      if (weight) weight[d] = stored ? block.weight[low] : zero_weight;
    }
  }
  while (row < last) start[++row] = static_cast<uint32_t>(n);

  Block<T> drawn;
  drawn.rows = block.rows;
  drawn.columns = block.columns;
  drawn.entries = n;
  drawn.start = drawn.row_start = start;
  drawn.index32 = index;
  drawn.tile_row = tile_row;
  drawn.value = value;
  drawn.weight = weight;
  return drawn;
}

}  // namespace psgld::PSGLD_ISA
