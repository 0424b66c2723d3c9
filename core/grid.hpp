// V cut into B x B blocks, or the blocks of some of its outer strips. Built once, read by any number of
// chains.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "kernels.hpp"

namespace psgld {

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};

// An array aligned for any vector, with a vector's worth of readable slack behind it.
template <class T>
class Aligned {
 public:
  Aligned() = default;
  explicit Aligned(size_t n, T fill = T{}) : size_(n) {
    // Large arrays on huge pages: the inner factor is hit at random, and small pages would overflow the TLB.
    constexpr size_t huge = size_t{1} << 21;
    const size_t bytes = n * sizeof(T) + 512, align = bytes >= huge ? huge : 64;
    data_.reset(static_cast<T*>(std::aligned_alloc(align, (bytes + align - 1) / align * align)));
    if (!data_) throw std::bad_alloc();
#if defined(__linux__)
    if (align == huge) madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
    std::fill_n(data_.get(), n + 256 / sizeof(T), fill);
  }
  T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  std::unique_ptr<T, FreeDeleter> data_;
  size_t size_ = 0;
};

// One side of the grid: the rows of one factor, strip after strip, each padded to whole tiles. It may hold
// fewer rows than V has.
template <class T>
struct Side {
  static constexpr uint32_t kElsewhere = ~uint32_t{0};

  std::vector<int> rows, first;        // of each strip: its length, the position of its first row
  std::vector<uint32_t> strip, local;  // of each original index; kElsewhere if it is in no strip here
  Aligned<uint32_t> ids;               // original index at each position
  Aligned<T> counts;                   // observed entries at each position
  size_t positions = 0;

  Side(std::span<const int64_t> order, std::span<const int64_t> bounds, size_t size)
      : strip(size, kElsewhere), local(size, kElsewhere) {
    for (size_t b = 0; b + 1 < bounds.size(); ++b) {
      const int n = static_cast<int>(bounds[b + 1] - bounds[b]);
      rows.push_back(n);
      first.push_back(static_cast<int>(positions));
      positions += (n + kRowTile - 1) / kRowTile * kRowTile;
    }
    ids = Aligned<uint32_t>(positions);
    counts = Aligned<T>(positions);
    for (size_t b = 0; b < rows.size(); ++b)
      for (int r = 0; r < rows[b]; ++r) {
        const auto id = static_cast<uint32_t>(order[bounds[b] + r]);
        strip[id] = static_cast<uint32_t>(b);
        local[id] = static_cast<uint32_t>(r);
        ids[first[b] + r] = id;
      }
  }
  size_t size() const { return strip.size(); }  // of V
  bool here(size_t id) const { return strip[id] != kElsewhere; }
  size_t position(size_t id) const { return first[strip[id]] + local[id]; }
};

// A run of rows of a block, the unit of work of a thread. It depends on the data alone, never on the number
// of threads.
struct Chunk {
  int outer_strip, first, last, number, of;
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
  Grid(std::span<const int64_t> start, std::span<const int32_t> index, const Value* value, bool swapped,
       bool zeros, double shift, int first_strip, Side<T>&& outer_side, Side<T>&& inner_side)
      : parts(static_cast<int>(inner_side.rows.size())),
        strips(static_cast<int>(outer_side.rows.size())),
        first_strip(first_strip),
        swapped(swapped),
        outer(std::move(outer_side)),
        inner(std::move(inner_side)),
        blocks(static_cast<size_t>(strips) * parts) {
    const int64_t rows = static_cast<int64_t>(start.size()) - 1;
    const size_t heads = (outer.positions + strips) * parts;
    start_ = Aligned<uint32_t>(heads);
    std::vector<uint32_t*> head(blocks.size());  // of each block
    size_t at = 0;
    for (int b = 0; b < strips; ++b)
      for (int c = 0; c < parts; ++c) {
        head[b * parts + c] = start_.data() + at;
        at += outer.rows[b] + 1;
      }
    auto visit = [&](auto&& f) {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t q = start[i]; q < start[i + 1]; ++q) {
          const uint32_t o = swapped ? index[q] : static_cast<uint32_t>(i),
                         n = swapped ? static_cast<uint32_t>(i) : index[q];
          if (!outer.here(o)) continue;
          f(head[outer.strip[o] * parts + inner.strip[n]], o, n, q);
        }
    };
    size_t entries = 0;
    visit([&](uint32_t* h, uint32_t o, uint32_t n, int64_t) {
      ++entries;
      ++h[outer.local[o]];
      outer.counts[outer.position(o)] += 1;
      inner.counts[inner.position(n)] += 1;
    });
    if (zeros) {
      for (size_t i = 0; i < outer.size(); ++i)
        if (outer.here(i)) outer.counts[outer.position(i)] = static_cast<T>(inner.size());
      for (size_t j = 0; j < inner.size(); ++j)
        inner.counts[inner.position(j)] = static_cast<T>(outer.size());
    }
    const bool narrow = *std::max_element(inner.rows.begin(), inner.rows.end()) <= 65536;
    value_ = Aligned<T>(entries);
    tile_row_ = Aligned<uint8_t>(entries);
    if (narrow)
      index16_ = Aligned<uint16_t>(entries);
    else
      index32_ = Aligned<uint32_t>(entries);
    // Counts become starts; while filling, a start is moved on to the end of its row, which is the start of
    // the next.
    size_t offset = 0;
    std::vector<size_t> base(blocks.size());
    for (int b = 0; b < strips; ++b)
      for (int c = 0; c < parts; ++c) {
        Block<T>& block = blocks[b * parts + c];
        uint32_t* h = head[b * parts + c];
        uint32_t sum = 0;
        for (int r = 0; r <= outer.rows[b]; ++r) sum += std::exchange(h[r], sum);
        base[b * parts + c] = offset;
        block = {outer.rows[b], inner.rows[c], static_cast<int64_t>(sum)};
        block.start = h;
        block.value = value_.data() + offset;
        block.tile_row = tile_row_.data() + offset;
        if (narrow)
          block.index16 = index16_.data() + offset;
        else
          block.index32 = index32_.data() + offset;
        offset += sum;
      }
    visit([&](uint32_t* h, uint32_t o, uint32_t n, int64_t q) {
      const size_t to = base[outer.strip[o] * parts + inner.strip[n]] + h[outer.local[o]]++;
      value_[to] = static_cast<T>(value[q] - shift);
      tile_row_[to] = static_cast<uint8_t>(outer.local[o] % kRowTile);
      if (narrow)
        index16_[to] = static_cast<uint16_t>(inner.local[n]);
      else
        index32_[to] = inner.local[n];
    });
    for (size_t k = 0; k < blocks.size(); ++k) {
      uint32_t* h = head[k];
      for (int r = blocks[k].rows; r > 0; --r) h[r] = h[r - 1];
      h[0] = 0;
    }
    cut_chunks();
  }

  // A dense V, row-major, NaN = unobserved.
  template <class Value>
  Grid(const Value* v, bool swapped, double shift, int first_strip, Side<T>&& outer_side,
       Side<T>&& inner_side)
      : parts(static_cast<int>(inner_side.rows.size())),
        strips(static_cast<int>(outer_side.rows.size())),
        first_strip(first_strip),
        swapped(swapped),
        outer(std::move(outer_side)),
        inner(std::move(inner_side)),
        blocks(static_cast<size_t>(strips) * parts) {
    auto padded = [](int n) { return static_cast<size_t>((n + kRowTile - 1) / kRowTile * kRowTile); };
    value_ = Aligned<T>(outer.positions * inner.positions, std::numeric_limits<T>::quiet_NaN());
    T* at = value_.data();
    for (int b = 0; b < strips; ++b)
      for (int c = 0; c < parts; ++c) {
        Block<T>& block = blocks[b * parts + c];
        block = {outer.rows[b], inner.rows[c], 0};
        block.dense = at;
        block.leading = static_cast<int>(padded(inner.rows[c]));
        for (int r = 0; r < block.rows; ++r)
          for (int s = 0; s < block.columns; ++s) {
            const size_t o = outer.ids[outer.first[b] + r], n = inner.ids[inner.first[c] + s];
            const T x = static_cast<T>(v[swapped ? n * outer.size() + o : o * inner.size() + n] - shift);
            at[static_cast<size_t>(r) * block.leading + s] = x;
            if (std::isnan(x)) continue;
            outer.counts[outer.first[b] + r] += 1;
            inner.counts[inner.first[c] + s] += 1;
            ++block.entries;
          }
        at += padded(block.rows) * block.leading;
      }
    cut_chunks();
  }

  // Part p joins row strip b of V to column strip b + p, whichever of them is outer.
  int inner_strip(int outer_strip, int part) const {
    return (first_strip + outer_strip + (swapped ? parts - part : part)) % parts;
  }
  const Block<T>& block(int outer_strip, int part) const {
    return blocks[outer_strip * parts + inner_strip(outer_strip, part)];
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
  void cut_chunks(double drawn = 0) {
    constexpr double kCheapDenseEntry = 1.0 / 8, kRowCost = 8;  // in sparse entries: noise and step of a row
    const double dense_entry = drawn > 0 ? drawn : kCheapDenseEntry, sparse_entry = drawn > 0 ? drawn : 1;
    chunks.assign(parts, {});
    first_chunk.assign(parts, {});
    chunk_slot.assign(blocks.size(), 0);
    chunk_slots = 0, most_chunks = 1;
    for (int p = 0; p < parts; ++p)
      for (int b = 0; b < strips; ++b) {
        first_chunk[p].push_back(chunks[p].size());
        const Block<T>& k = block(b, p);
        const int tile = k.dense ? kPanelRows : kRowTile, tiles = (k.rows + tile - 1) / tile;
        auto cost = [&](int tile_number) {  // of all rows before the tile
          const int r = std::min(k.rows, tile_number * tile);
          return kRowCost * r +
                 (k.dense ? dense_entry * r * k.columns : sparse_entry * static_cast<double>(k.start[r]));
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

 private:
  Aligned<T> value_;
  Aligned<uint8_t> tile_row_;
  Aligned<uint16_t> index16_;
  Aligned<uint32_t> index32_, start_;
};

}  // namespace psgld
