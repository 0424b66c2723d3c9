// V cut into B x B blocks, or the blocks of some of its outer strips. Built once, read by any number of
// chains.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/aligned.hpp"
#include "common/checks.hpp"
#include "common/kernels.hpp"
#include "data/block_file.hpp"
#include "data/mapped.hpp"
#include "data/side.hpp"

namespace psgld {

// A run of rows of a block, the unit of work of a thread. It depends on the data alone, never on the number
// of threads.
struct Chunk {
  int outer_strip, first, last, number, of;
};

// Compressed rows of V, or of some rows of it: `ids` says which; none for all in order. `weight` is null
// where each entry counts once.
template <class Value>
struct Rows {
  std::span<const int64_t> start;
  std::span<const int32_t> index;
  const Value* value;
  std::span<const int64_t> ids;
  const Value* weight = nullptr;
};

template <class T>
class Grid {
 public:
  const int parts;        // B
  const int strips;       // outer strips that are here: all B, or a run of them
  const int first_strip;  // of that run
  const bool swapped;     // the outer side is the columns of V
  Side<T> outer, inner;
  std::vector<Block<T>> blocks;                  // outer strip x inner strip
  std::vector<std::vector<Chunk>> chunks;        // of each part, in the order of its outer strips
  std::vector<std::vector<size_t>> first_chunk;  // of each part: where each outer strip begins, and the end
  std::vector<int> chunk_slot;                   // of each block: where its chunks are numbered from
  int chunk_slots = 0, most_chunks = 1;

  // Compressed rows of V (values - shift).
  template <class Value>
  Grid(const Rows<Value>& rows, bool swapped, bool zeros, double shift, int first_strip, Side<T>&& outer_side,
       Side<T>&& inner_side)
      : Grid(swapped, first_strip, std::move(outer_side), std::move(inner_side)) {
    require_rows(rows.start, rows.index, row_side().size(), column_side().size());
    const std::vector<int64_t> sizes = block_entries(rows);
    std::vector<Target> targets(blocks.size());
    size_t starts = 0;
    for (size_t k = 0; k < blocks.size(); ++k) starts += size_block(k, sizes[k]) + 1;
    start_ = Aligned<uint32_t>(starts);
    size_t at = 0;
    for (size_t k = 0; k < blocks.size(); ++k) {
      targets[k].start = start_.data() + at;
      at += starts_of(blocks[k]) + 1;
    }
    const size_t entries = count<true>(rows, targets);
    if (zeros) {
      for (size_t i = 0; i < outer.size(); ++i)
        if (outer.here(i)) outer.counts[outer.position(i)] = static_cast<T>(inner.size());
      for (size_t j = 0; j < inner.size(); ++j)
        inner.counts[inner.position(j)] = static_cast<T>(outer.size());
    }
    value_ = Aligned<T>(entries);
    if (rows.weight) weight_ = Aligned<T>(entries);
    tile_row_ = Aligned<uint8_t>(entries);
    if (narrow())
      index16_ = Aligned<uint16_t>(entries);
    else
      index32_ = Aligned<uint32_t>(entries);
    size_t offset = 0;
    for (int b = 0; b < strips; ++b)
      for (int c = 0; c < parts; ++c) {
        Target& to = targets[b * parts + c];
        to.value = value_.data() + offset;
        if (rows.weight) to.weight = weight_.data() + offset;
        to.tile_row = tile_row_.data() + offset;
        if (narrow())
          to.index16 = index16_.data() + offset;
        else
          to.index32 = index32_.data() + offset;
        Block<T>& block = blocks[b * parts + c];
        block.entries = counts_to_starts(to.start, starts_of(block));
        offset += block.entries;
        set_block(block, to);
      }
    place(rows, shift, targets);
    for (size_t k = 0; k < blocks.size(); ++k) ends_to_starts(targets[k].start, starts_of(blocks[k]));
    set_row_starts();
    cut_chunks();
  }

  // Blocks in an open file, the blocks of a part one after the other. `entries` says how many each block has
  // (outer strip x inner strip), the counts how many each row of either side has, in the original order. A
  // file that is new (create) has to be filled, all rows of a row strip of V at a time, and then finished;
  // another one is checked, and refused if it was not finished with the same key.
  Grid(int file, bool create, const std::string& key, std::span<const int64_t> entries,
       std::span<const double> outer_counts, std::span<const double> inner_counts, bool swapped,
       Side<T>&& outer_side, Side<T>&& inner_side);

  // All rows of one row strip of V. Returns whether they are as many as was said.
  template <class Value>
  bool fill(const Rows<Value>& rows, int strip, double shift) {
    require(!targets_.empty(), "blocks that are not being written");
    require_between(strip, 0, parts - 1, "strip");
    require_rows(rows.start, rows.index, rows.ids.size(), column_side().size());
    require_indices(rows.ids, row_side().size(), "row");
    for (int64_t id : rows.ids)
      require(row_side().strip[id] == static_cast<uint32_t>(strip), "a row of another strip");
    count<false>(rows, targets_);
    for (int s = 0; s < parts; ++s) {
      const int k = swapped ? s * parts + strip : strip * parts + s;
      if (counts_to_starts(targets_[k].start, starts_of(blocks[k])) != blocks[k].entries) return false;
    }
    place(rows, shift, targets_);
    for (int s = 0; s < parts; ++s) {
      const int k = swapped ? s * parts + strip : strip * parts + s;
      ends_to_starts(targets_[k].start, starts_of(blocks[k]));
    }
    return true;
  }
  void finish() {
    require(!targets_.empty(), "blocks that are not being written");
    scan().write(digest_place());
    file_.sync();
    written();
  }

  // Of blocks in a file: let the disk fetch a part while another is worked on.
  void prefetch(int part) const {
    if (file_.data()) file_.will_need(part_start_[part], part_start_[part + 1]);
  }
  size_t file_bytes() const { return part_start_.empty() ? 0 : part_start_.back(); }

  // A dense V, row-major, NaN = unobserved; and the weights of its cells, or null.
  template <class Value>
  Grid(const Value* v, const Value* weight, size_t rows, size_t columns, bool swapped, double shift,
       int first_strip, Side<T>&& outer_side, Side<T>&& inner_side)
      : Grid(swapped, first_strip, std::move(outer_side), std::move(inner_side)) {
    require(rows == row_side().size() && columns == column_side().size(),
            "one strip for every row and column");
    auto padded = [](int n) { return static_cast<size_t>((n + kRowTile - 1) / kRowTile * kRowTile); };
    value_ = Aligned<T>(outer.positions * inner.positions, std::numeric_limits<T>::quiet_NaN());
    if (weight) weight_ = Aligned<T>(value_.size());
    size_t at = 0;
    for (int b = 0; b < strips; ++b)
      for (int c = 0; c < parts; ++c) {
        Block<T>& block = blocks[b * parts + c];
        block = {outer.rows[b], inner.rows[c], 0};
        block.dense = value_.data() + at;
        if (weight) block.weight = weight_.data() + at;
        block.leading = static_cast<int>(padded(inner.rows[c]));
        for (int r = 0; r < block.rows; ++r)
          for (int s = 0; s < block.columns; ++s) {
            const size_t o = outer.ids[outer.first[b] + r], n = inner.ids[inner.first[c] + s];
            const size_t from = swapped ? n * outer.size() + o : o * inner.size() + n;
            const size_t to = at + static_cast<size_t>(r) * block.leading + s;
            const T x = static_cast<T>(v[from] - shift);
            value_[to] = x;
            if (std::isnan(x)) continue;
            if (weight) weight_[to] = static_cast<T>(weight[from]);
            outer.counts[outer.first[b] + r] += 1;
            inner.counts[inner.first[c] + s] += 1;
            ++block.entries;
          }
        at += padded(block.rows) * block.leading;
      }
    cut_chunks();
  }

  // The weight of the observed entries of each row of a side, in the original order, where it is not their
  // number.
  void set_counts(Side<T>& side, std::span<const double> weight) {
    require(weight.size() == side.size(), "one weight per row");
    for (size_t i = 0; i < side.size(); ++i)
      if (side.here(i)) side.counts[side.position(i)] = static_cast<T>(weight[i]);
  }

  // Part p joins row strip b of V to column strip b + p, whichever of them is outer.
  int inner_strip(int outer_strip, int part) const {
    return (first_strip + outer_strip + (swapped ? parts - part : part)) % parts;
  }
  const Block<T>& block(int outer_strip, int part) const {
    return blocks[outer_strip * parts + inner_strip(outer_strip, part)];
  }

  // What a chunk of a part can draw from: its entries, or its cells.
  int64_t chunk_entries(int part, size_t number, bool cells) const {
    const Chunk& chunk = chunks[part][number];
    const Block<T>& k = block(chunk.outer_strip, part);
    if (k.dense || cells) return static_cast<int64_t>(chunk.last - chunk.first) * k.columns;
    return static_cast<int64_t>(k.row_start[chunk.last]) - k.row_start[chunk.first];
  }

  // The most chunks of a part.
  size_t widest() const {
    size_t most = 0;
    for (const auto& part : chunks) most = std::max(most, part.size());
    return most;
  }

  // Chunks of about equal cost, small enough to share the work evenly, large enough that the inner gradient
  // that each collects on its own is small beside it. Where only a share of the entries is drawn at random,
  // `drawn` > 0, a chunk costs less, and an entry of a dense block as much as one of a sparse block. No chain
  // must be there yet.
  void cut_chunks(double drawn = 0);

 private:
  // Where the entries of a sparse block are written to.
  struct Target {
    uint32_t* start = nullptr;
    T *value = nullptr, *weight = nullptr;
    uint8_t* tile_row = nullptr;
    uint16_t* index16 = nullptr;
    uint32_t* index32 = nullptr;
  };

  Grid(bool swapped, int first_strip, Side<T>&& outer_side, Side<T>&& inner_side)
      : parts(static_cast<int>(inner_side.rows.size())),
        strips(static_cast<int>(outer_side.rows.size())),
        first_strip(first_strip),
        swapped(swapped),
        outer(std::move(outer_side)),
        inner(std::move(inner_side)),
        blocks(static_cast<size_t>(strips) * parts) {
    require_between(first_strip, 0, parts - strips, "the first strip");
    require(inner.whole(), "every row of the inner side is in a strip");
  }

  static constexpr int64_t kMostEntries = std::numeric_limits<uint32_t>::max();  // of a block

  const Side<T>& row_side() const { return swapped ? inner : outer; }
  const Side<T>& column_side() const { return swapped ? outer : inner; }

  // Local indices of the inner side fit 16 bits.
  bool narrow() const { return *std::max_element(inner.rows.begin(), inner.rows.end()) <= 65536; }

  // Checks the blocks in the file, part by part, and returns their checksum.
  Digest scan() const {
    Digest digest(key_);
    for (int p = 0; p < parts; ++p) {
      if (p + 1 < parts) prefetch(p + 1);
      for (int b = 0; b < parts; ++b)
        if (const char* fault = scan_block(block(b, p), digest)) throw std::runtime_error(fault);
    }
    const std::byte* end = file_.data() + part_start_.back();
    if (!all_zero(end, end + kFileSlack)) throw std::runtime_error("padding that is not zero");
    return digest;
  }
  std::byte* digest_place() const { return file_.data() + part_start_.back() + kFileSlack; }

  // The size of a sparse block; returns how many rows its tiles have together.
  size_t size_block(size_t k, int64_t entries) {
    require(entries <= kMostEntries,
            "a block of more than 2^32 - 1 entries; cut the matrix into more blocks");
    Block<T>& block = blocks[k];
    block = {outer.rows[k / parts], inner.rows[k % parts], entries};
    block.tiles = tiles_of(block.rows, block.columns, entries);
    return starts_of(block);
  }
  static size_t starts_of(const Block<T>& block) { return static_cast<size_t>(block.tiles) * block.rows; }

  static void set_block(Block<T>& block, const Target& to) {
    block.start = block.row_start = to.start;
    block.value = to.value;
    block.weight = to.weight;
    block.tile_row = to.tile_row;
    block.index16 = to.index16;
    block.index32 = to.index32;
  }

  // Calls f(number of the block, outer index, inner index, number of the entry).
  template <class Value, class F>
  void visit(const Rows<Value>& rows, F&& f) const {
    for (size_t r = 0; r + 1 < rows.start.size(); ++r) {
      const auto i = static_cast<uint32_t>(rows.ids.empty() ? r : rows.ids[r]);
      for (int64_t q = rows.start[r]; q < rows.start[r + 1]; ++q) {
        const uint32_t j = rows.index[q], o = swapped ? j : i, n = swapped ? i : j;
        if (outer.here(o)) f(outer.strip[o] * parts + inner.strip[n], o, n, q);
      }
    }
  }

  // Which of the starts of a block an entry belongs to.
  size_t slot(size_t k, uint32_t o, uint32_t n) const {
    const size_t tile = blocks[k].tiles > 1 ? inner.local[n] / kTileColumns : 0;
    return tile * blocks[k].rows + outer.local[o];
  }

  // How many entries each block has, if the number of its tiles depends on that.
  template <class Value>
  std::vector<int64_t> block_entries(const Rows<Value>& rows) const {
    std::vector<int64_t> entries(blocks.size());
    if (*std::max_element(inner.rows.begin(), inner.rows.end()) < 2 * kTileColumns) return entries;
    visit(rows, [&](size_t k, uint32_t, uint32_t, int64_t) { ++entries[k]; });
    return entries;
  }

  // Of blocks in tiles: where rows would start without.
  void set_row_starts();
  // Blocks in a file are complete.
  void written() {
    targets_.clear();
    set_row_starts();
    cut_chunks();
  }

  // Entries of each outer row of each block; and (sides) of each row of either side. Returns how many.
  template <bool sides, class Value>
  size_t count(const Rows<Value>& rows, const std::vector<Target>& targets) {
    size_t entries = 0;
    visit(rows, [&](size_t k, uint32_t o, uint32_t n, int64_t) {
      ++entries;
      ++targets[k].start[slot(k, o, n)];
      if constexpr (sides) {
        outer.counts[outer.position(o)] += 1;
        inner.counts[inner.position(n)] += 1;
      }
    });
    return entries;
  }

  static uint32_t counts_to_starts(uint32_t* start, size_t rows) {
    uint64_t sum = 0;
    for (size_t r = 0; r <= rows; ++r) sum += std::exchange(start[r], static_cast<uint32_t>(sum));
    require(sum <= kMostEntries, "a block of more than 2^32 - 1 entries; cut the matrix into more blocks");
    return static_cast<uint32_t>(sum);
  }

  // While entries are placed, a start is moved on to the end of its row, which is the start of the next.
  static void ends_to_starts(uint32_t* start, size_t rows) {
    for (size_t r = rows; r > 0; --r) start[r] = start[r - 1];
    start[0] = 0;
  }

  template <class Value>
  void place(const Rows<Value>& rows, double shift, const std::vector<Target>& targets) {
    const bool short_index = narrow();
    visit(rows, [&](size_t k, uint32_t o, uint32_t n, int64_t q) {
      const Target& to = targets[k];
      const uint32_t at = to.start[slot(k, o, n)]++;
      to.value[at] = static_cast<T>(rows.value[q] - shift);
      if (to.weight) to.weight[at] = static_cast<T>(rows.weight[q]);
      to.tile_row[at] = static_cast<uint8_t>(outer.local[o] % kPanelRows);
      if (short_index)
        to.index16[at] = static_cast<uint16_t>(inner.local[n]);
      else
        to.index32[at] = inner.local[n];
    });
  }

  Aligned<T> value_, weight_;
  Aligned<uint8_t> tile_row_;
  Aligned<uint16_t> index16_;
  Aligned<uint32_t> index32_, start_, row_start_;
  Mapped file_;
  std::string key_;                 // of blocks in a file: of their checksum
  std::vector<size_t> part_start_;  // of blocks in a file: where each part begins, and the end
  std::vector<Target> targets_;
};

// Compiled in grid.cpp.
#define PSGLD_GRID(prefix, T)     \
  prefix template class Grid<T>;  \
  PSGLD_GRID_OF(prefix, T, float) \
  PSGLD_GRID_OF(prefix, T, double)
#define PSGLD_GRID_OF(prefix, T, Value)                                                                   \
  prefix template Grid<T>::Grid(const Rows<Value>&, bool, bool, double, int, Side<T>&&, Side<T>&&);       \
  prefix template Grid<T>::Grid(const Value*, const Value*, size_t, size_t, bool, double, int, Side<T>&&, \
                                Side<T>&&);                                                               \
  prefix template bool Grid<T>::fill(const Rows<Value>&, int, double);
PSGLD_GRID(extern, float)
PSGLD_GRID(extern, double)

}  // namespace psgld
