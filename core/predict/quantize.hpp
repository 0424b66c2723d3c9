// Rows of the factors as 16-bit integers, for screen.hpp, which says in what units and how exactly.
#pragma once

#include <algorithm>
#include <cmath>

#include "predict/score_tile.hpp"
#include "simd/int16.hpp"

#if defined(PSGLD_HAS_INT16)

namespace psgld::PSGLD_ISA {

constexpr int kScreenTile = 6;     // rows that lie together
constexpr int kScreenDraws = 4;    // likewise; their strips are in the first-level cache at the same time
constexpr int kScreenMost = 4096;  // components: the length is a float's
constexpr float kLength = 32760, kTiny = 1e-6f;  // L, and the shortest length
constexpr float kHuge = 1e7f, kHugeAdd = 1e14f;  // above these the sums of squares might overflow

// The rows of a tile in one draw; after it come pairs of integers, kScreenTile of each two components.
struct QuantizedRows {
  float unit[kScreenTile], add[kScreenTile];
  int32_t* pairs() { return reinterpret_cast<int32_t*>(this + 1); }
  const int32_t* pairs() const { return reinterpret_cast<const int32_t*>(this + 1); }
};

inline int pairs_of(int components) { return (components + 1) / 2; }
inline int pair_stride(int components) { return (pairs_of(components) + 15) / 16 * 16; }
inline size_t record_size(int components) {
  return sizeof(QuantizedRows) + sizeof(int32_t) * kScreenTile * pairs_of(components);
}
// Draws by the group, tiles of rows within it, draws of the group within those.
template <class Byte>
inline Byte* record(Byte* quantized, int components, int64_t tiles, int64_t s, int64_t tile) {
  return quantized +
         ((s / kScreenDraws * tiles + tile) * kScreenDraws + s % kScreenDraws) * record_size(components);
}
inline int64_t row_tiles(int64_t rows) { return (rows + kScreenTile - 1) / kScreenTile; }

// Sixteen vectors as pairs of integers, `stride` apart, and their lengths.
inline VecF quantize(const float* const* x, int components, int32_t* out, int stride) {
  constexpr int L = kLanes<float>;
  const int last = (components - 1) / L * L;
  const FirstLanes rest(components - last);
  VecF squares[L];
  for (int l = 0; l < L; ++l) {
    const VecF end = rest.load(x[l] + last);
    VecF sum = end * end;
    for (int k = 0; k < last; k += L) {
      const VecF v = load_unaligned(x[l] + k);
      sum += v * v;
    }
    squares[l] = sum;
  }
  const VecF length = vmax(splat(kTiny), vsqrt<float>(horizontal_sums<float>(squares)));
  alignas(64) float inverse[L];
  store(inverse, kLength / length);
  for (int l = 0; l < L; ++l) {
    const VecF scale = splat(inverse[l]);
    int32_t* to = out + static_cast<size_t>(l) * stride;
    for (int k = 0; k < last; k += L, to += L / 2) store_rounded(to, load_unaligned(x[l] + k) * scale);
    store_rounded(to, rest.load(x[l] + last) * scale);
  }
  return length;
}

// Takes the lengths in one draw into the largest of them and the sum of fourth powers; false if they are too
// large or no numbers. (vmax: a NaN is kept.)
inline bool take(VecF length, float* largest, float* fourth) {
  store(largest, vmax(load(largest), length));
  const VecF square = length * length;
  store(fourth, load(fourth) + square * square);
  return all_at_most(length, kHuge);
}

// Bytes of all rows of t in all draws.
inline size_t quantized_size(const ScoreTile<float>& t) {
  const int64_t groups = (t.draws + kScreenDraws - 1) / kScreenDraws;
  return groups * row_tiles(t.n_rows) * kScreenDraws * record_size(t.components);
}

// Rows [first, first + kQuantizeRows) of t quantised, in all draws.
inline bool quantize_rows(const ScoreTile<float>& t, int64_t first, char* quantized, Largest* largest) {
  static_assert(kQuantizeRows % kScreenTile == 0 && kQuantizeRows % kLanes<float> == 0);
  constexpr int L = kLanes<float>;
  const int stride = pair_stride(t.components), pairs = pairs_of(t.components);
  const int64_t rows = std::min<int64_t>(kQuantizeRows, row_tiles(t.n_rows) * kScreenTile - first);
  Buffer memory;
  int32_t* q = memory.get<int32_t>(static_cast<size_t>(L) * stride);
  alignas(64) float length[kQuantizeRows] = {}, fourth[kQuantizeRows] = {}, add[kQuantizeRows] = {}, now[L];
  bool fits = true;
  auto id = [&](int64_t r) { return t.row_ids[std::min<int64_t>(first + r, t.n_rows - 1)]; };
  for (int64_t s = 0; s < t.draws; ++s)
    for (int64_t r = 0; r < rows; r += L) {
      const float* x[L];
      for (int l = 0; l < L; ++l) x[l] = t.w + (s * t.rows + id(r + l)) * t.components;
      store(now, quantize(x, t.components, q, stride));
      fits &= take(load(now), length + r, fourth + r);
      for (int l = 0; l < L && r + l < rows; ++l) {
        const int64_t at = first + r + l;
        auto* to = reinterpret_cast<QuantizedRows*>(
            record(quantized, t.components, row_tiles(t.n_rows), s, at / kScreenTile));
        const int i = static_cast<int>(at % kScreenTile);
        to->unit[i] = now[l] / kLength;
        to->add[i] = row_sum(t, s, id(r + l));
        add[r + l] = std::max(add[r + l], std::abs(to->add[i]));
        fits &= std::abs(to->add[i]) <= kHugeAdd;
        for (int k = 0; k < pairs; ++k)
          to->pairs()[k * kScreenTile + i] = q[static_cast<size_t>(l) * stride + k];
      }
    }
  for (int64_t r = 0; r < rows && first + r < t.n_rows; ++r)
    largest[first + r] = {length[r], fourth[r], add[r]};
  return fits;
}

}  // namespace psgld::PSGLD_ISA
#endif
