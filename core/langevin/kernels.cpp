// Compiled once per instruction-set level (PSGLD_ISA names it); kernels.hpp says what each function does.
#include "langevin/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "langevin/dense_block.hpp"
#include "langevin/gram.hpp"
#include "langevin/precision.hpp"
#include "langevin/sparse_block.hpp"
#include "langevin/step.hpp"
#include "langevin/subsample.hpp"
#include "likelihood/zeros.hpp"

namespace psgld::PSGLD_ISA {

Scratch* make_scratch() { return reinterpret_cast<Scratch*>(new ThreadScratch); }
void free_scratch(Scratch* s) { delete reinterpret_cast<ThreadScratch*>(s); }

inline int padded(int rows) { return (rows + kRowTile - 1) / kRowTile * kRowTile; }

// A partial gradient: the inner rows, then what the implicit zeros need of the outer rows.
template <class T>
size_t partial_size(int inner_rows, int stride, const Likelihood<T>& likelihood) {
  return static_cast<size_t>(padded(inner_rows)) * stride + zero_size(likelihood, stride);
}

template <class T>
void add_rows(T* sum, const T* gradient, size_t n) {
  for (size_t q = 0; q < n; q += kLanes<T>) store(sum + q, load(sum + q) + load(gradient + q));
}

// Rows [first, last) of those that a strip has: what step_rows asks memory for while it makes noise. Short
// strips are in cache.
template <class T>
Wanted<T> rows_ahead(const Strip<T>& strip, int first, int last) {
  constexpr size_t kShort = (size_t{1} << 17) / sizeof(T);
  const size_t stride = strip.stride;
  last = std::min(last, strip.rows);
  if (first >= last || strip.rows * stride < kShort) return {};
  return {{strip.x + first * stride, (last - first) * stride},
          {strip.momentum ? strip.momentum + first * stride : nullptr,
           strip.inverse_root ? strip.inverse_root + first * stride : nullptr}};
}

// Whether inner rows and their gradients stay in cache, however many entries hit them.
template <class T>
bool cached(const Block<T>& block, const Strip<T>& inner) {
  return block.tiles > 1 || sizeof(T) * inner.rows * inner.stride < size_t{1} << 19;
}

// Of a sparse block, where inner rows do not stay in cache: also those that the entries of the rows hit, up
// to `end`, the last row of the chunk.
template <class T>
Wanted<T> wanted_ahead(const Block<T>& block, const Strip<T>& outer, const Strip<T>& inner, const T* gradient,
                       int first, int last, int end) {
  Wanted<T> wanted = rows_ahead(outer, first, last);
  if (block.dense || first >= end || cached(block, inner)) return wanted;
  last = std::min(last, end);
  return {wanted.rows,  wanted.also,        &block,           inner.x, gradient,
          inner.stride, block.start[first], block.start[last]};
}

// Of the panel at `row`, what is read once from one end to the other: the processor would see that too late,
// as so much else is read in between. The starts are those of the next panel: here one has to know them.
template <class T>
[[gnu::always_inline]] inline void prefetch_panel(const Block<T>& block, const Strip<T>& outer, int row,
                                                  int end) {
  const int last = std::min(row + kPanelRows, end);
  if (row >= last) return;
  prefetch_run(outer.ids, row, last);
  prefetch_run(block.start, row + kPanelRows, last + kPanelRows);
  const uint32_t from = block.start[row], to = block.start[last];
  prefetch_run(block.value, from, to);
  if (block.weight) prefetch_run(block.weight, from, to);
  prefetch_run(block.tile_row, from, to);
  block.index16 ? prefetch_run(block.index16, from, to) : prefetch_run(block.index32, from, to);
}

// Gradients of the inner rows of a tile, just before they are added up: then they are still in cache.
template <class T>
void clear_tile(const Block<T>& block, const Strip<T>& inner, int tile, T* partial) {
  const int first = tile * kTileColumns,
            end = tile + 1 < block.tiles ? first + kTileColumns : padded(inner.rows);
  std::memset(partial + static_cast<size_t>(first) * inner.stride, 0,
              sizeof(T) * static_cast<size_t>(end - first) * inner.stride);
}

template <class T>
T* kept_buffer(const Rule<T>& rule, ThreadScratch* scratch) {
  return scratch->kept.get<T>(static_cast<size_t>(kRowTile) * rule.stride);
}

template <class T>
float* noise_buffer(const Rule<T>& rule, ThreadScratch* scratch) {
  // A row is read to the end of its last vector, past its own noise.
  return scratch->noise.get<float>(static_cast<size_t>(kRowTile) * (rule.components + 4) + rule.stride + 64);
}

// Rows and gradients of a panel, which come one after the other.
template <class T>
[[gnu::always_inline]] inline void prefetch_rows(const T* rows, const T* gradient, size_t size) {
  for (size_t k = 0; k < size; k += kLine<T>) {
    __builtin_prefetch(rows + k, 0, 2);
    __builtin_prefetch(gradient + k, 1, 2);
  }
}

// Adds up the gradients of the rows [panel.first, last) over all tiles but the last. `panel` begins at the
// first row, but its rows are those of the whole strip.
template <class T>
double all_but_last_tile(SparsePanel<T> panel, const Strip<T>& outer, const Strip<T>& inner, int last,
                         bool stored) {
  constexpr int tile = kPanelRows;
  const Block<T>& block = panel.block;
  const size_t stride = panel.stride;
  T* const gradients = panel.row_gradient;
  double squares = 0;
  for (int t = 0; t + 1 < block.tiles; ++t) {
    const Block<T> part = block.tile(t);
    clear_tile(block, inner, t, panel.inner_gradient);
    for (int r = panel.first; r < last; r += tile) {
      const int n = last - r < tile ? last - r : tile, next = std::clamp(last - r - tile, 0, tile);
      const T* rows = outer.x + r * stride;
      T* gradient = gradients + (r - panel.first) * stride;
      prefetch_panel(part, outer, r + 2 * tile, last);
      prefetch_rows(rows + tile * stride, gradient + tile * stride, next * stride);
      if (t == 0) std::memset(gradient, 0, sizeof(T) * padded(n) * stride);
      if (stored && part.start[r] < part.start[r + n])
        squares += sparse_rows<T>({part, panel.likelihood, panel.pass, panel.stride, rows, panel.inner, r,
                                   gradient, panel.inner_gradient, false},
                                  r + n);
    }
  }
  return squares;
}

template <class T>
double outer_rows(const BlockRows<T>& work, T* partial, Scratch* opaque) {
  const auto [block, likelihood, pass, rule, outer, inner, first, last] = work;
  auto* scratch = reinterpret_cast<ThreadScratch*>(opaque);
  const int stride = rule.stride, tile = kPanelRows;
  const size_t inner_size = static_cast<size_t>(padded(inner.rows)) * inner.stride;
  const T sign = (pass == Pass::weight ? T(1) : T(-1)) * likelihood.zero_weight;
  double squares = 0;

  T *packed = nullptr, *panel = nullptr, *inner_zeros = nullptr;
  T* outer_zeros = partial + inner_size;
  if (block.dense) {
    packed = scratch->packed.get<T>(static_cast<size_t>(stride) * block.leading);
    panel = scratch->panel.get<T>(kPanelRows * kPanelColumns);
    transpose(inner.x, block.leading, stride, stride, packed, block.leading);
  } else {
    std::memset(outer_zeros, 0, zero_size(likelihood, stride) * sizeof(T));
  }
  if (likelihood.zeros) {
    inner_zeros = scratch->zeros.get<T>(zero_size(likelihood, stride));
    std::memset(inner_zeros, 0, zero_size(likelihood, stride) * sizeof(T));
    zero_add(likelihood, inner.x, inner.rows, stride, inner_zeros);
  }

  const bool stored = block.entries > 0 && (block.weight || !(likelihood.zeros && pass == Pass::weight));
  // The panels of a sparse block go through one tile of columns after the other, and are moved in the last.
  const size_t panel_size = static_cast<size_t>(tile) * stride;
  T* const gradients =
      scratch->gradient.get<T>(panel_size * (block.tiles > 1 ? (last - first + tile - 1) / tile : 1));
  if (block.tiles > 1)
    squares += all_but_last_tile<T>(
        {block, likelihood, pass, stride, outer.x, inner.x, first, gradients, partial, false}, outer, inner,
        last, stored);
  const Block<T> rest = block.dense ? block : block.tile(block.tiles - 1);
  if (!block.dense) clear_tile(block, inner, block.tiles - 1, partial);

  const T* coupling = pass == Pass::langevin ? scaled_coupling(rule, scratch) : nullptr;
  float* noise = noise_buffer(rule, scratch);
  // Dense panels also begin the gradients of the inner rows, so none is left out.
  const int end = pass == Pass::langevin && !block.dense ? std::min(last, first_skipped(rule, outer)) : last;
  for (int r = first; r < end; r += tile) {
    const int n = last - r < tile ? last - r : tile;
    T* x = outer.x + static_cast<size_t>(r) * stride;
    T* gradient = block.tiles > 1 ? gradients + (r - first) / tile * panel_size : gradients;
    if (block.dense) {
      squares += dense_rows<T>(
          {block, likelihood, pass, rule, x, inner.x, packed, r, gradient, partial, r > first, panel},
          padded(n));
    } else {
      if (block.tiles > 1 || !cached(block, inner)) prefetch_panel(rest, outer, r + 2 * tile, last);
      if (block.tiles == 1) std::memset(gradient, 0, sizeof(T) * padded(n) * stride);
      if (stored)
        squares +=
            sparse_rows<T>({rest, likelihood, pass, stride, x, inner.x, r, gradient, partial, false}, r + n);
    }
    if (likelihood.zeros) {
      zero_add(likelihood, x, n, stride, outer_zeros);
      zero_apply(likelihood, x, n, stride, inner_zeros, sign, gradient);
    }
    if (pass == Pass::langevin) {
      if (coupling) couple(coupling, rule, x, padded(n), gradient, scratch);
      for (int s = 0; s < n; s += kRowTile)
        step_rows(rule, outer, r + s, n - s < kRowTile ? n - s : kRowTile,
                  gradient + static_cast<size_t>(s) * stride, scratch->pattern, noise,
                  kept_buffer(rule, scratch),
                  wanted_ahead(block, outer, inner, partial, r + s + tile, r + s + tile + kRowTile, last));
    } else {
      add_rows(outer.sum + static_cast<size_t>(r) * stride, gradient, static_cast<size_t>(n) * stride);
    }
  }
  if (likelihood.zeros && traits(likelihood).squares)  // the sum of mu^2 over the whole chunk
    for (int q = 0; q < stride * stride; ++q)
      squares += static_cast<double>(likelihood.zero_weight * inner_zeros[q]) * outer_zeros[q];
  return squares;
}

template <class T>
void inner_rows(const Likelihood<T>& likelihood, Pass pass, const Rule<T>& rule, const Strip<T>& inner,
                T* const* partials, int n, Scratch* opaque) {
  auto* scratch = reinterpret_cast<ThreadScratch*>(opaque);
  const int stride = rule.stride;
  const size_t inner_size = static_cast<size_t>(padded(inner.rows)) * stride;
  const size_t size = inner_size + zero_size(likelihood, stride);
  T* total = partials[0];
  for (int p = 1; p < n; ++p) add_rows(total, partials[p], size);
  if (likelihood.zeros)
    zero_apply(likelihood, inner.x, inner.rows, stride, total + inner_size,
               (pass == Pass::weight ? T(1) : T(-1)) * likelihood.zero_weight, total);
  if (pass != Pass::langevin) {
    add_rows(inner.sum, total, static_cast<size_t>(inner.rows) * stride);
    return;
  }
  if (const T* coupling = scaled_coupling(rule, scratch))
    couple(coupling, rule, inner.x, padded(inner.rows), total, scratch);
  float* noise = noise_buffer(rule, scratch);
  const int end = first_skipped(rule, inner);
  for (int r = 0; r < end; r += kRowTile)
    step_rows(rule, inner, r, inner.rows - r < kRowTile ? inner.rows - r : kRowTile,
              total + static_cast<size_t>(r) * stride, scratch->pattern, noise, kept_buffer(rule, scratch),
              rows_ahead(inner, r + kRowTile, r + 2 * kRowTile));
}

template <class T>
Block<T> subsample(const Block<T>& block, int first, int last, const Drawing<T>& drawing, Scratch* opaque) {
  return subsample_rows(block, first, last, drawing, reinterpret_cast<ThreadScratch*>(opaque));
}

void noise(const uint32_t* ids, int64_t rows, int components, uint32_t tag, uint64_t iteration, uint64_t key,
           float* out, int stride, Scratch* opaque) {
  auto* scratch = reinterpret_cast<ThreadScratch*>(opaque);
  const int quartets = (components + 3) / 4;
  scratch->pattern.prepare(quartets);
  const ArsKeys keys(key);
  float* z = scratch->noise.get<float>(static_cast<size_t>(kNoiseRows) * 4 * quartets);
  for (int64_t r = 0; r < rows; r += kNoiseRows) {
    const int n = rows - r < kNoiseRows ? static_cast<int>(rows - r) : kNoiseRows;
    uint32_t group[kNoiseRows] = {};
    std::memcpy(group, ids + r, sizeof(uint32_t) * n);
    noise_rows(scratch->pattern, group, tag, iteration, keys, z);
    for (int i = 0; i < n; ++i)
      std::memcpy(out + (r + i) * stride, z + static_cast<size_t>(4) * quartets * i,
                  sizeof(float) * components);
  }
}

template <class T>
void dots(RowView<const T> x, RowView<const T> y, int components, const int64_t* i, const int64_t* j,
          int64_t n, T* out) {
  constexpr int L = kLanes<T>, ahead = 16, line = 64 / static_cast<int>(sizeof(T));
  const int whole = components / L * L;
  for (int64_t q = 0; q < n; ++q) {
    const T *a = x[i[q]], *b = y[j[q]];
    if (q + ahead < n) {  // the rows come in any order: ask for those to come
      const T *c = x[i[q + ahead]], *d = y[j[q + ahead]];
      for (int k = 0; k < components; k += line) {
        __builtin_prefetch(c + k, 0, 2);  // into the second-level cache: the first has few places to wait in
        __builtin_prefetch(d + k, 0, 2);
      }
    }
    Vec<T> s{};
    for (int k = 0; k < whole; k += L) s += load_unaligned(a + k) * load_unaligned(b + k);
    T total = hsum<T>(s);
    for (int k = whole; k < components; ++k) total += a[k] * b[k];
    out[q] = total;
  }
}

// Adds the first n lanes, in double.
template <class T>
void add_lanes(Vec<T> v, double* to, int n) {
  constexpr int L = kLanes<T>;
  T lane[L];
  std::memcpy(lane, &v, sizeof v);
  if (n >= L)
    for (int l = 0; l < L; ++l) to[l] += lane[l];
  else
    for (int l = 0; l < n; ++l) to[l] += lane[l];
}

template <class T>
double log_kernel(const Likelihood<T>& likelihood, const T* v, const T* weight, const T* mu, int64_t n) {
  constexpr int L = kLanes<T>;
  static_assert(kKernelRun % L == 0);
  double total = 0, run[L] = {};
  with_family(likelihood, [&](auto family) {
    for (int64_t q = 0; q < n; q += L) {
      const int lanes = n - q < L ? static_cast<int>(n - q) : L;
      Vec<T> value{}, m = splat<T>(1);
      std::memcpy(&value, v + q, sizeof(T) * lanes);
      std::memcpy(&m, mu + q, sizeof(T) * lanes);
      Vec<T> kernel = family.kernel(value, guarded<decltype(family)>(likelihood, m));
      if (weight) {
        Vec<T> w{};
        std::memcpy(&w, weight + q, sizeof(T) * lanes);
        kernel *= w;
      }
      add_lanes<T>(kernel, run, lanes);
      if ((q + L) % kKernelRun == 0 || q + L >= n) {
        total += std::accumulate(run, run + L, 0.0);
        std::fill_n(run, L, 0.0);
      }
    }
  });
  return total;
}

template <class T>
void column_sums(const T* x, const T* counts, int64_t rows, int stride, int components,
                 const ColumnSums& out) {
  // Rows are summed in the precision of the factors over short runs, in double over the runs; four sums side
  // by side hide the latency of an addition.
  constexpr int L = kLanes<T>, run = 64, lanes = 4;
  auto add_up = [&](auto with_logs, auto with_weights) {
    for (int64_t r = 0; r < rows; r += run)
      for (int k = 0; k < stride; k += L) {
        Vec<T> s[lanes] = {}, s2[lanes] = {}, sl[lanes] = {}, sw[lanes] = {};
        const int n = static_cast<int>(rows - r < run ? rows - r : run);
        auto add = [&](int i, int lane) {
          const Vec<T> w = load_unaligned(x + (r + i) * stride + k);
          s[lane] += w;
          s2[lane] += w * w;  // rounded once where the processor can, with or without the line below
          if constexpr (with_logs) sl[lane] += vlog(vmax(splat(std::numeric_limits<T>::min()), w));
          if constexpr (with_weights) sw[lane] += (counts[r + i] * w) * w;
        };
        int i = 0;
        for (; i + lanes <= n; i += lanes)
#pragma GCC unroll 4
          for (int lane = 0; lane < lanes; ++lane) add(i + lane, lane);
        for (; i < n; ++i) add(i, 0);
        auto put = [&](const Vec<T>* v, double* to) {
          add_lanes<T>((v[0] + v[1]) + (v[2] + v[3]), to + k, components - k);
        };
        put(s, out.sum);
        put(s2, out.squares);
        if constexpr (with_logs) put(sl, out.logs);
        if constexpr (with_weights) put(sw, out.weighted);
      }
  };
  for (double* sums : {out.sum, out.squares, out.logs, out.weighted})
    if (sums) std::fill_n(sums, components, 0.0);
  auto with_logs = [&](auto with) {
    out.weighted ? add_up(with, std::true_type{}) : add_up(with, std::false_type{});
  };
  out.logs ? with_logs(std::true_type{}) : with_logs(std::false_type{});
}

template <class T>
void stream_rows(const T* x, int64_t rows, int stride, const uint32_t* ids, int64_t width, T* out) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < width; k += kLanes<T>)
      stream(out + ids[r] * width + k, load_unaligned(x + r * stride + k));
}

template <class T>
const LangevinKernels<T>& langevin_kernels() {
  static const LangevinKernels<T> kernels{
      .make_scratch = make_scratch,
      .free_scratch = free_scratch,
      .partial_size = partial_size<T>,
      .outer_rows = outer_rows<T>,
      .inner_rows = inner_rows<T>,
      .subsample = subsample<T>,
      .noise = noise,
      .dots = dots<T>,
      .log_kernel = log_kernel<T>,
      .column_sums = column_sums<T>,
      .stream_rows = stream_rows<T>,
      .gram = gram<T>,
  };
  return kernels;
}
template const LangevinKernels<float>& langevin_kernels<float>();
template const LangevinKernels<double>& langevin_kernels<double>();

}  // namespace psgld::PSGLD_ISA
