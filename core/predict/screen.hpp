// Which columns can be among the best of a row: all of them scored by products of integers, at twice the
// speed of floats, with a bound on the difference to what score_tile.hpp makes of the same cell.
//
// Rounding. w = w_si and h = h_sj become 16-bit integers, in units of their own length:
//
//   l = max(|w|, tiny),   a = l / L,   q = rint(w / a),   |w - a q| <= 0.51 a sqrt(K),   |q_k| <= L + 1 <
//   2^15
//
// (0.51, for the division is one of floats), so that the sum over k is within 32 bits and exact:
// |q_w . q_h| <= |q_w| |q_h| <= N^2 with N = 2^15 + sqrt(K). With m and b the length and the unit of h,
//
//   |a b q_w . q_h - w . h| <= |w - a q_w| |h| + |a q_w| |h - b q_h| <= 1.02 sqrt(K) N a b.
//
// Bound. Over the n draws, let A and B be the largest l and m; A4 and B4 the fourth roots of the means of l^4
// and m^4; R and C the largest |row_sum| and |col_bias|; u = 2^-24. No |mu| is above
// G = 1.01 ((N / L)^2 A B + R + C). mu of a draw differs between here and there by the above and, for the
// floats, by less than (3 K + 32) u G: K + 2 roundings there and 5 here of numbers up to 2 G. In the mean
// square over the draws, as the mean of l^2 m^2 is at most A4^2 B4^2, that is
//
//   e = 1.04 sqrt(K) N / L^2 A4 B4 + (3 K + 32) u G,   and in any draw at most   f, the same with A B.
//
// The means of the draws are then within e, and the standard deviations within sqrt(n / (n - 1)) e, being the
// lengths of what is left without the mean. To this come the roundings of the sums over the draws. With D - 2
// f the root mean square of mu - start here, and there at most D, they are
//
//   of the mean      n u D, twice, and a few u of G and of D;
//   of the variance  v = 1.2 (3 n + 6) u D^2 n / (n - 1);
//   of the sd        3 v / sd, here and there together, if sd > 2 (1.5 e + sqrt(v)), else 2 sqrt(v),
//
// for |sqrt x - sqrt y| = |x - y| / (sqrt x + sqrt y) <= sqrt|x - y|. A score mean + c sd, c = `threshold`,
// thus differs by at most
//
//   e + 2 n u D + |c| (sqrt(n / (n - 1)) e + that of the sd) + 12 u (G + (1 + |c|) D).
//
// The layout is that of score_tile.hpp; rows are quantised beforehand (quantize.hpp), columns on the
// way.
#pragma once

#include <algorithm>
#include <cmath>

#include "predict/quantize.hpp"
#include "predict/rescore.hpp"
#include "simd/int16.hpp"

#if defined(PSGLD_HAS_INT16)

namespace psgld::PSGLD_ISA {

constexpr int kScreenVectors = 4;  // and kScreenTile rows: cells in registers, as in score_tile.hpp
constexpr int kScreenStrip = kScreenVectors * kLanes<float>, kScreenCells = kScreenTile * kScreenStrip;

// One draw of kScreenCells cells into -start, sum and second, as add_draw does; the first draw sets start.
template <bool first, bool adds>
[[gnu::noinline]] PSGLD_VNNI void screen_draw(const QuantizedRows* rows, const int32_t* strip, int pairs,
                                              const float* unit, const float* col_add, float* start) {
  constexpr int L = kLanes<float>;
  float *sum = start + kScreenCells, *second = sum + kScreenCells;
  const int32_t* x = rows->pairs();
  VecPairs acc[kScreenTile][kScreenVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kScreenTile; ++i)
#pragma GCC unroll 4
    for (int c = 0; c < kScreenVectors; ++c) acc[i][c] = no_pairs();
  for (int k = 0; k < pairs; ++k, strip += kScreenStrip, x += kScreenTile) {
    VecPairs y[kScreenVectors];
#pragma GCC unroll 4
    for (int c = 0; c < kScreenVectors; ++c) y[c] = load_pairs(strip + c * L);
#pragma GCC unroll 8
    for (int i = 0; i < kScreenTile; ++i) {
      const VecPairs w = splat_pair(x[i]);
#pragma GCC unroll 4
      for (int c = 0; c < kScreenVectors; ++c) add_products(acc[i][c], w, y[c]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kScreenTile; ++i)
#pragma GCC unroll 4
    for (int c = 0; c < kScreenVectors; ++c) {
      const int at = (kScreenVectors * i + c) * L;
      const VecF product = sums_of_pairs(acc[i][c]) * load(unit + c * L);
      VecF base = first ? VecF{} : load(start + at);
      if (adds) base += splat(rows->add[i]) + load(col_add + c * L);
      const VecF away = product * splat(rows->unit[i]) + base;
      store(start + at, first ? -away : load(start + at));
      store(sum + at, first ? VecF{} : load(sum + at) + away);
      store(second + at, first ? VecF{} : load(second + at) + away * away);
    }
}

// A tile of rows x columns over the draws.
class Screened {
 public:
  explicit Screened(const ScreenTile& tile)
      : tile_(tile),
        t_(tile.scores),
        width_((t_.n_columns + kScreenStrip - 1) / kScreenStrip * kScreenStrip),
        stride_(pair_stride(t_.components)),
        strip_(static_cast<size_t>(kScreenStrip) * stride_),
        row_(memory_[0].get<int32_t>(static_cast<size_t>(kLanes<float>) * stride_)),
        strips_(memory_[1].get<int32_t>(kScreenDraws * strip_)),
        unit_(memory_[2].get<float>(kScreenDraws * kScreenStrip)),
        add_(memory_[3].get<float>(kScreenDraws * kScreenStrip)),
        sums_(memory_[4].get<float>(3 * kScreenCells * (tile.n_tiles * (width_ / kScreenStrip)))),
        length_(memory_[5].get<float>(width_)),
        fourth_(memory_[6].get<float>(width_)),
        largest_add_(memory_[7].get<float>(width_)),
        adds_(has_sums(t_)) {}

  bool run() {
    for (int64_t s = 0; s < t_.draws; s += kScreenDraws)
      for (int j = 0; j < width_; j += kScreenStrip) {
        if (!lay_out(s, j)) return false;
        add_draws(s, j);
      }
    for (int j = 0; j < width_; j += kScreenStrip)
      for (int64_t r = 0; r < tile_.n_tiles * kScreenTile; ++r) finish(r, j);
    return true;
  }

 private:
  const float* columns(int64_t s) const { return t_.h + (s * t_.columns + t_.first_column) * t_.components; }
  int64_t last_draw(int64_t s) const { return std::min(s + kScreenDraws, t_.draws); }

  // The strip at column j in the draws from s on.
  bool lay_out(int64_t s, int j) {
    bool fits = true;
    for (int at = 0; s + at < last_draw(s); ++at) {
      for (int c = 0; c < kScreenStrip; c += kLanes<float>) fits &= lay_out(s + at, j + c, at, c);
      fits &= lay_out_biases(s + at, j, add_ + at * kScreenStrip);
    }
    return fits;
  }

  // Sixteen columns from j on, at c of the strip; beyond the last, the last again.
  bool lay_out(int64_t s, int j, int at, int c) {
    constexpr int L = kLanes<float>;
    const float* x[L];
    for (int l = 0; l < L; ++l)
      x[l] = columns(s) + static_cast<size_t>(std::min(j + l, t_.n_columns - 1)) * t_.components;
    const VecF length = quantize(x, t_.components, row_, stride_);
    store(unit_ + at * kScreenStrip + c, length / kLength);
    transpose(reinterpret_cast<const float*>(row_), L, stride_, stride_,
              reinterpret_cast<float*>(strips_ + at * strip_ + c), kScreenStrip);
    return take(length, length_ + j, fourth_ + j);
  }

  bool lay_out_biases(int64_t s, int j, float* add) {
    if (!t_.col_bias) return true;
    const float* bias = t_.col_bias + s * t_.columns + t_.first_column + j;
    bool fits = true;
    for (int c = 0; c < std::min(kScreenStrip, t_.n_columns - j); ++c) {
      add[c] = bias[c];
      largest_add_[j + c] = std::max(largest_add_[j + c], std::abs(add[c]));
      fits &= std::abs(add[c]) <= kHugeAdd;
    }
    return fits;
  }

  void add_draws(int64_t s, int j) {
    const size_t size = record_size(t_.components);
    float* sums = sums_ + 3 * kScreenCells * (j / kScreenStrip * tile_.n_tiles);
    for (int64_t r = 0; r < tile_.n_tiles; ++r, sums += 3 * kScreenCells) {
      const char* rows =
          record(tile_.quantized, t_.components, row_tiles(t_.n_rows), s, tile_.first_tile + r);
      j + kScreenStrip < width_ ? ask_ahead(s, j + kScreenStrip, r) : ask_ahead(s + kScreenDraws, 0, r);
      for (int at = 0; s + at < last_draw(s); ++at, rows += size)
        add_draw(s + at == 0, reinterpret_cast<const QuantizedRows*>(rows), strips_ + at * strip_,
                 unit_ + at * kScreenStrip, add_ + at * kScreenStrip, sums);
    }
  }

  void add_draw(bool first, const QuantizedRows* rows, const int32_t* strip, const float* unit,
                const float* add, float* sums) const {
    const auto draw = first ? (adds_ ? screen_draw<true, true> : screen_draw<true, false>)
                            : (adds_ ? screen_draw<false, true> : screen_draw<false, false>);
    draw(rows, strip, pairs_of(t_.components), unit, add, sums);
  }

  // Each tile of rows asks for its share of the strip that comes next.
  void ask_ahead(int64_t s, int j, int64_t tile) const {
    const int64_t n = std::min(kScreenStrip, t_.n_columns - j);
    for (const int64_t end = last_draw(s); s < end; ++s)
      for (int64_t c = tile * n / tile_.n_tiles; c < (tile + 1) * n / tile_.n_tiles; ++c)
        ask_for(columns(s) + (j + c) * t_.components, t_.components);
  }

  // The upper bounds of a row and a strip, and how far the lower ones can be below them.
  void finish(int64_t r, int j) {
    constexpr int L = kLanes<float>;
    const int64_t row = tile_.first_tile * kScreenTile + r;
    if (row >= t_.n_rows) return;
    const size_t step = static_cast<size_t>(j / kScreenStrip) * tile_.n_tiles + r / kScreenTile;
    const float* start = sums_ + 3 * kScreenCells * step + r % kScreenTile * kScreenStrip;
    const float *sum = start + kScreenCells, *second = sum + kScreenCells;
    const float n = static_cast<float>(t_.draws), k = static_cast<float>(t_.components), u = 0x1p-24f;
    const float N = 0x1p15f + std::sqrt(k), c = std::abs(t_.threshold), wider = std::sqrt(n / (n - 1.0f));
    const Largest& of = tile_.largest[row];
    const float fourth = std::sqrt(std::sqrt(of.fourth / n));
    const float rounding = 1.04f * std::sqrt(k) * N / (kLength * kLength);
    float* upper = tile_.upper + row * t_.columns + t_.first_column + j;
    VecF widest{};
    for (int at = 0; at < kScreenStrip && j + at < t_.n_columns; at += L) {
      const VecF AB = of.length * load(length_ + j + at);
      const VecF AB4 = fourth * vsqrt<float>(vsqrt<float>(load(fourth_ + j + at) / n));
      const VecF G = 1.01f * (N / kLength * (N / kLength) * AB + (of.add + load(largest_add_ + j + at)));
      const VecF floats = (3.0f * k + 32.0f) * u * G, e = rounding * AB4 + floats;
      const VecF sums = load(sum + at), squares = load(second + at);
      const VecF D = vsqrt<float>(squares / n) + 2.0f * (rounding * AB + floats);
      VecF sd{}, of_sd{};
      if (t_.draws > 1) {
        sd = vsqrt<float>(vmax((squares - sums * sums / n) / (n - 1.0f), VecF{}));
        const VecF v = 1.2f * (3.0f * n + 6.0f) * u * n / (n - 1.0f) * D * D, root = vsqrt<float>(v);
        of_sd = wider * e + (sd > 2.0f * (1.5f * e + root) ? 3.0f * v / sd : 2.0f * root);
      }
      const VecF off = 1.05f * (e + 2.0f * n * u * D + c * of_sd + 12.0f * u * (G + (1.0f + c) * D));
      const VecF top = sums / n - load(start + at) + t_.threshold * sd + off;
      const FirstLanes there(t_.n_columns - j - at);
      there.store(upper + at, top);
      widest = vmax(there.of(off), widest);
    }
    float& width = tile_.width[row];
    width = std::max(j == 0 ? 0.0f : width, 2.0f * largest_lane(widest));
  }

  const ScreenTile tile_;
  const ScoreTile<float>& t_;
  const int width_, stride_;
  const size_t strip_;
  Buffer memory_[8];
  int32_t *const row_, *const strips_;
  float *const unit_, *const add_, *const sums_, *const length_, *const fourth_, *const largest_add_;
  const bool adds_;
};

inline bool screen(const ScreenTile& tile) { return Screened(tile).run(); }

inline const ScreenKernels* screen_table() {
  static const ScreenKernels kernels{kScreenMost,   kScreenTile, quantized_size,
                                     quantize_rows, screen,      rescore};
  static const bool can = has_int16_products();
  return can ? &kernels : nullptr;
}

}  // namespace psgld::PSGLD_ISA
#endif
