// The one place where the templates of grid.hpp are compiled.
#include "data/grid.hpp"

#include <algorithm>

namespace psgld {

template <class T>
Grid<T>::Grid(int file, bool create, const std::string& key, std::span<const int64_t> entries,
              std::span<const double> outer_counts, std::span<const double> inner_counts, bool swapped,
              Side<T>&& outer_side, Side<T>&& inner_side)
    : Grid(swapped, 0, std::move(outer_side), std::move(inner_side)) {
  require(strips == parts && entries.size() == blocks.size(), "all blocks, and how many entries each has");
  for (int64_t n : entries) require_between(n, 0, kMostEntries, "the entries of a block");
  require(outer_counts.size() == outer.size() && inner_counts.size() == inner.size() && outer.whole(),
          "one count per row");
  for (size_t i = 0; i < outer.size(); ++i) outer.counts[outer.position(i)] = static_cast<T>(outer_counts[i]);
  for (size_t j = 0; j < inner.size(); ++j) inner.counts[inner.position(j)] = static_cast<T>(inner_counts[j]);
  const size_t index_bytes = narrow() ? 2 : 4;
  std::vector<size_t> at(blocks.size());
  part_start_ = {0};
  for (int p = 0; p < parts; ++p) {
    size_t end = part_start_.back();
    for (int b = 0; b < parts; ++b) {
      const size_t k = b * parts + inner_strip(b, p);
      at[k] = end;
      size_block(k, entries[k]);
      for (size_t bytes : block_sections(blocks[k], index_bytes)) end += section_bytes(bytes);
    }
    part_start_.push_back(end);
  }
  file_ = Mapped(file, part_start_.back() + kFileSlack + kDigestBytes, create);
  key_ = key;
  targets_.resize(blocks.size());
  for (size_t k = 0; k < blocks.size(); ++k) {
    const auto bytes = block_sections(blocks[k], index_bytes);
    std::byte* from = file_.data() + at[k];
    Target& to = targets_[k];
    to.start = reinterpret_cast<uint32_t*>(from);
    to.value = reinterpret_cast<T*>(from += section_bytes(bytes[0]));
    from += section_bytes(bytes[1]);
    if (index_bytes == 2)
      to.index16 = reinterpret_cast<uint16_t*>(from);
    else
      to.index32 = reinterpret_cast<uint32_t*>(from);
    to.tile_row = reinterpret_cast<uint8_t*>(from + section_bytes(bytes[2]));
    set_block(blocks[k], to);
  }
  if (create) return;
  if (!scan().matches(digest_place())) throw std::runtime_error("a wrong checksum");
  written();
}

template <class T>
void Grid<T>::set_row_starts() {
  size_t all = 0;
  for (const Block<T>& block : blocks)
    if (block.tiles > 1) all += block.rows + 1;
  row_start_ = Aligned<uint32_t>(all);
  uint32_t* to = row_start_.data();
  for (Block<T>& block : blocks) {
    if (block.tiles == 1) continue;
    for (int r = 0; r <= block.rows; ++r) {
      to[r] = 0;
      for (int t = 0; t < block.tiles; ++t) to[r] += block.tile(t).start[r] - block.tile(t).start[0];
    }
    block.row_start = to;
    to += block.rows + 1;
  }
}

template <class T>
void Grid<T>::cut_chunks(double drawn) {
  // In entries of a sparse block (`system/cost.py` has the costs of iterations): noise and step of a row.
  constexpr double kCheapDenseEntry = 1.0 / 8, kRowCost = 8;
  const double dense_entry = drawn > 0 ? drawn : kCheapDenseEntry, sparse_entry = drawn > 0 ? drawn : 1;
  chunks.assign(parts, {});
  first_chunk.assign(parts, {});
  chunk_slot.assign(blocks.size(), 0);
  chunk_slots = 0, most_chunks = 1;
  for (int p = 0; p < parts; ++p)
    for (int b = 0; b < strips; ++b) {
      first_chunk[p].push_back(chunks[p].size());
      const Block<T>& k = block(b, p);
      const int tile = kPanelRows, tiles = (k.rows + tile - 1) / tile;
      auto cost = [&](int tile_number) {  // of all rows before the tile
        const int r = std::min(k.rows, tile_number * tile);
        return kRowCost * r +
               (k.dense ? dense_entry * r * k.columns : sparse_entry * static_cast<double>(k.row_start[r]));
      };
      const double total = cost(tiles);
      const int n =
          std::clamp(static_cast<int>(total / std::max(24576.0, 36.0 * k.columns)), 1, std::min(16, tiles));
      chunk_slot[b * parts + inner_strip(b, p)] = n;
      most_chunks = std::max(most_chunks, n);
      int from = 0;
      for (int q = 0; q < n; ++q) {
        int to = from + 1;
        while (to < tiles - (n - 1 - q) && (q == n - 1 || cost(to) < total * (q + 1) / n)) ++to;
        chunks[p].push_back({b, from * tile, std::min(k.rows, to * tile), q, n});
        from = to;
      }
      if (b == strips - 1) first_chunk[p].push_back(chunks[p].size());
    }
  // Numbered outer strip after outer strip, so that those of a run of outer strips are a run, too.
  for (int& slot : chunk_slot) chunk_slots += std::exchange(slot, chunk_slots);
}

PSGLD_GRID(, float)
PSGLD_GRID(, double)

}  // namespace psgld
