// A tile of rows x columns of mu, draw after draw: a small matrix product whose result goes from the
// registers into running sums, so that no draw of mu is ever written down.
//
// W is read where it lies; H is turned into strips of components x kStrip columns, which stay in the
// first-level cache. What the next draws need is asked for while the present ones are worked on. The sums of
// a few rows and a strip lie together, in the order of their use, and take in kDraws draws at a time.
#pragma once

#include <algorithm>
#include <cstring>

#include "common/buffer.hpp"
#include "predict/kernels.hpp"
#include "simd/gemm.hpp"

namespace psgld::PSGLD_ISA {

// Cells of mu in registers: rows x vectors of columns. (Wide, for W comes from the second-level cache.)
constexpr int kScoreTile = kVectorBytes == 64 ? 6 : kTileRows, kStripVectors = kVectorBytes == 64 ? 4 : 2;
template <class T>
constexpr int kStrip = kStripVectors * kLanes<T>;
template <class T>
constexpr int kCells = kScoreTile * kStrip<T>;
constexpr int kDraws = 2;

// Asks for a row into the second-level cache.
template <class T>
inline void ask_for(const T* row, int n) {
  constexpr int kLine = 64 / static_cast<int>(sizeof(T));
  for (int k = 0; k < n; k += kLine) __builtin_prefetch(row + k, 0, 2);
}

// n columns, rows of x, as strips of `stride` x kStrip; what is beyond the last column is arbitrary.
template <class T>
inline void pack_strips(const T* x, int n, int components, int stride, T* padded, T* out) {
  constexpr int L = kLanes<T>, C = kStrip<T>;
  for (int j = 0; j < n; j += L) {
    const T* from = x + static_cast<size_t>(j) * components;
    int leading = components;
    if (static_cast<size_t>(j + L - 1) * components + stride > static_cast<size_t>(n) * components) {
      for (int l = 0; l < L && j + l < n; ++l)  // whole vectors would lead beyond the end
        std::memcpy(padded + static_cast<size_t>(l) * stride, from + static_cast<size_t>(l) * components,
                    sizeof(T) * components);
      from = padded, leading = stride;
    }
    transpose(from, L, leading, stride, out + static_cast<size_t>(j / C) * stride * C + j % C, C);
  }
}

// What is added to the products of a row in a draw, besides the bias of the column.
template <class T>
inline T row_sum(const ScoreTile<T>& t, int64_t s, int64_t row) {
  return static_cast<T>(t.row_bias ? t.row_bias[s * t.rows + row] + t.offset[s] : t.offset[s]);
}

template <class T>
inline bool has_sums(const ScoreTile<T>& t) {
  return t.row_bias || std::any_of(t.offset, t.offset + t.draws, [](double x) { return x != 0.0; });
}

// Of n draws, from the sums of mu - start and of its square; start is negative.
template <class T>
inline T mean_of(T start, T sum, T n) {
  return sum / n - start;
}
template <class T>
inline T sd_of(T sum, T second, T n) {
  const T variance = (second - sum * sum / n) / (n - 1);
  return n > 1 && variance > 0 ? std::sqrt(variance) : T(0);
}

// acc += rows of W times a strip; the rows that come next are asked for on the way.
template <class T>
[[gnu::always_inline]] inline void multiply(const T* const* row, const T* const* next, const T* strip,
                                            int components, Vec<T> (&acc)[kScoreTile][kStripVectors]) {
  constexpr int kLine = 64 / static_cast<int>(sizeof(T));
  const T* w[kScoreTile];
  for (int i = 0; i < kScoreTile; ++i) w[i] = row[i];
  for (int k = 0; k < components;) {
    for (int i = 0; i < kScoreTile; ++i) __builtin_prefetch(next[i] + k);
    for (const int end = std::min(k + kLine, components); k < end; ++k, strip += kStrip<T>) {
      Vec<T> y[kStripVectors];
      for (int c = 0; c < kStripVectors; ++c) y[c] = load(strip + c * kLanes<T>);
#pragma GCC unroll 8
      for (int i = 0; i < kScoreTile; ++i) {
        const Vec<T> x = splat(w[i][k]);
#pragma GCC unroll 4
        for (int c = 0; c < kStripVectors; ++c) acc[i][c] += x * y[c];
      }
    }
  }
}

// One draw of kCells cells: from the registers into the sums of mu - start and of its square, or of mu >
// threshold; -start, sum and second lie one after the other. row_add is null where there is nothing to add.
// (A function of its own, or the compiler runs out of registers.)
template <class T, ScoreKind kind>
[[gnu::noinline]] void add_draw(const T* const* row, const T* const* next, const T* strip, int components,
                                const T* row_add, const T* col_add, T threshold, T* start) {
  constexpr int L = kLanes<T>;
  const Vec<T> one = splat<T>(1), limit = splat(threshold);
  T *sum = start + kCells<T>, *second = sum + kCells<T>;
  Vec<T> mu[kScoreTile][kStripVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kScoreTile; ++i)
#pragma GCC unroll 4
    for (int c = 0; c < kStripVectors; ++c)
      mu[i][c] = kind == ScoreKind::above ? Vec<T>{} : load(start + (kStripVectors * i + c) * L);
  if (row_add)
#pragma GCC unroll 8
    for (int i = 0; i < kScoreTile; ++i)
#pragma GCC unroll 4
      for (int c = 0; c < kStripVectors; ++c) mu[i][c] += splat(row_add[i]) + load(col_add + c * L);
  multiply(row, next, strip, components, mu);
#pragma GCC unroll 8
  for (int i = 0; i < kScoreTile; ++i)
#pragma GCC unroll 4
    for (int c = 0; c < kStripVectors; ++c) {
      const int at = (kStripVectors * i + c) * L;
      const Vec<T> away = kind == ScoreKind::above ? mu[i][c] + load(start + at) : mu[i][c];
      store(sum + at, load(sum + at) + away);
      if (kind == ScoreKind::sd) store(second + at, load(second + at) + away * away);
      if (kind == ScoreKind::above)
        store(second + at, load(second + at) + (mu[i][c] > limit ? one : Vec<T>{}));
    }
}

// The sums of a tile over the draws.
template <class T, ScoreKind kind>
class Scores {
 public:
  explicit Scores(const ScoreTile<T>& t)
      : t_(t),
        rows_(up(t.n_rows, kScoreTile)),
        width_(up(t.n_columns, kStrip<T>)),
        stride_(up(t.components, kLanes<T>)),
        strip_(static_cast<size_t>(width_) * stride_),
        tiles_(static_cast<size_t>(rows_ / kScoreTile) * (width_ / kStrip<T>)),
        padded_(memory_[0].get<T>(static_cast<size_t>(kLanes<T>) * stride_)),
        strips_(memory_[1].get<T>(kDraws * strip_)),
        row_add_(memory_[2].get<T>(kDraws * rows_)),
        col_add_(memory_[3].get<T>(kDraws * width_)),
        sums_(memory_[4].get<T>(3 * kCells<T> * tiles_)),
        row_(memory_[5].get<const T*>(kDraws * rows_)),
        next_row_(memory_[6].get<const T*>(kDraws * rows_)),
        adds_(has_sums(t)) {}

  void run(T* mean, T* second) {
    next_ = 1;  // the first draw on its own
    find_rows(0);
    for (int64_t first = 0; first < t_.draws; first += draws_) {
      draws_ = next_;
      next_ = static_cast<int>(std::min<int64_t>(kDraws, t_.draws - first - draws_));
      std::swap(row_, next_row_);
      find_rows(first + draws_);
      for (int s = 0; s < draws_; ++s) lay_out(first + s, s);
      add_draws(columns(first + draws_));
      if (first == 0) start_here();
    }
    for (int r = 0; r < t_.n_rows; ++r)
      for (int j = 0; j < t_.n_columns; j += kStrip<T>) {
        const size_t to = static_cast<size_t>(r) * t_.columns + j;
        finish(r, j, mean + to, second ? second + to : nullptr);
      }
  }

 private:
  static int up(int n, int step) { return (n + step - 1) / step * step; }
  const T* columns(int64_t s) const { return t_.h + (s * t_.columns + t_.first_column) * t_.components; }

  // Where the rows of the `next_` draws from s on lie; beyond the last row, the last again.
  void find_rows(int64_t s) {
    for (int i = 0; i < next_; ++i)
      for (int r = 0; r < rows_; ++r)
        next_row_[i * rows_ + r] =
            t_.w + ((s + i) * t_.rows + t_.row_ids[std::min(r, t_.n_rows - 1)]) * t_.components;
  }

  void lay_out(int64_t s, int at) {
    pack_strips(columns(s), t_.n_columns, t_.components, stride_, padded_, strips_ + at * strip_);
    T *row_add = row_add_ + at * rows_, *col_add = col_add_ + at * width_;
    for (int r = 0; r < t_.n_rows; ++r) row_add[r] = row_sum(t_, s, t_.row_ids[r]);
    if (!t_.col_bias) return;
    std::memcpy(col_add, t_.col_bias + s * t_.columns + t_.first_column, sizeof(T) * t_.n_columns);
  }

  void add_draws(const T* next_columns) {
    T* sums = sums_;
    size_t tile = 0;
    for (int j = 0; j < width_; j += kStrip<T>)
      for (int r = 0; r < rows_; r += kScoreTile, ++tile, sums += 3 * kCells<T>)
        for (int s = 0; s < draws_; ++s) {
          if (s < next_) ask_ahead(s, next_columns + s * t_.columns * t_.components, tile);
          const T* const* row = row_ + s * rows_;
          const T* strip = strips_ + s * strip_;
          add_draw<T, kind>(row + r, row + (r + kScoreTile < rows_ ? r + kScoreTile : 0),
                            strip + static_cast<size_t>(j) * stride_, t_.components,
                            adds_ ? row_add_ + s * rows_ + r : nullptr, col_add_ + s * width_ + j,
                            t_.threshold, sums);
        }
  }

  // Each tile asks for its share of the rows and columns of the s-th of the next draws.
  void ask_ahead(int s, const T* columns, size_t tile) const {
    const T* const* rows = next_row_ + s * rows_;
    for (size_t r = tile * rows_ / tiles_; r < (tile + 1) * rows_ / tiles_; ++r)
      ask_for(rows[r], t_.components);
    for (size_t c = tile * t_.n_columns / tiles_; c < (tile + 1) * t_.n_columns / tiles_; ++c)
      ask_for(columns + c * t_.components, t_.components);
  }

  // From now on the sums are of what is away from the first draw, so that nothing cancels.
  void start_here() {
    T* start = sums_;
    for (size_t tile = 0; tile < tiles_; ++tile, start += 3 * kCells<T>)
      for (int at = 0; at < kCells<T>; ++at) {
        start[at] = -start[kCells<T> + at];
        start[kCells<T> + at] = 0;
        if (kind == ScoreKind::sd) start[2 * kCells<T> + at] = 0;
      }
  }

  void finish(int r, int j, T* mean, T* second) const {
    const size_t tile = static_cast<size_t>(j / kStrip<T>) * (rows_ / kScoreTile) + r / kScoreTile;
    const T* start = sums_ + 3 * kCells<T> * tile + r % kScoreTile * kStrip<T>;
    const T *sum = start + kCells<T>, *other = sum + kCells<T>, n = static_cast<T>(t_.draws);
    const int columns = std::min(kStrip<T>, t_.n_columns - j);
    for (int c = 0; c < columns; ++c) mean[c] = mean_of(start[c], sum[c], n);
    auto sd = [&](int c) { return sd_of(sum[c], other[c], n); };
    if (t_.kind == ScoreKind::sd)
      for (int c = 0; c < columns; ++c) second[c] = sd(c);
    if (t_.kind == ScoreKind::bound)
      for (int c = 0; c < columns; ++c) mean[c] += t_.threshold * sd(c);
    if (t_.kind == ScoreKind::above)
      for (int c = 0; c < columns; ++c) second[c] = other[c] / n;
  }

  const ScoreTile<T> t_;
  const int rows_, width_, stride_;  // whole tiles, strips and vectors
  const size_t strip_, tiles_;
  Buffer memory_[7];
  T *const padded_, *const strips_, *const row_add_, *const col_add_, *const sums_;
  const T **row_, **next_row_;
  const bool adds_;
  int draws_ = 0, next_ = 0;  // at a time, and the time after
};

template <class T>
void scores(const ScoreTile<T>& t, T* mean, T* second) {
  if constexpr (sizeof(T) == sizeof(float))  // for doubles, with the sums of squares: less to compile
    if (t.kind == ScoreKind::mean) return Scores<T, ScoreKind::mean>(t).run(mean, second);
  if (t.kind == ScoreKind::above) return Scores<T, ScoreKind::above>(t).run(mean, second);
  Scores<T, ScoreKind::sd>(t).run(mean, second);
}

}  // namespace psgld::PSGLD_ISA
