// The one place where the templates of grid.hpp are compiled.
#include "data/grid.hpp"

#include <algorithm>

namespace psgld {

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
