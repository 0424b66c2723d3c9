// What the kernels are given: plain structures that do not depend on the instruction set.
//
// A block of V joins a strip of the *outer* factor (its rows are walked one after the other) to a strip of
// the *inner* factor (its rows are hit in any order, so it is the shorter one, to stay in cache). W is outer
// and H inner when V has more rows than columns, else the other way round: the kernels do not know which is
// which.
#pragma once

#include <cstddef>
#include <cstdint>

namespace psgld {

constexpr int kMostComponents = 1024;
constexpr int kRowTile = 16;        // strips are padded to a multiple of this many rows
constexpr int kRowRun = 4;          // this many rows of some fours of components are whole vectors
constexpr int kPanelRows = 32;      // blocks are worked through in panels of this many rows,
constexpr int kPanelColumns = 128;  // dense ones of this size: their scores stay in the first cache
constexpr int kBatch = 64;          // sparse entries worked on together
constexpr int kTileColumns = 4096;  // of a sparse block: so many inner rows and their gradients stay in cache
constexpr int kKernelRun = 32;      // log likelihoods summed by themselves, whoever does it

constexpr int kMostParameters = 64;  // of a likelihood, besides phi: 32 ordered levels have so many

// How the zeros of a sparse matrix that are not stored are added up without visiting them (zeros.hpp): not at
// all, by a sum of rows, by a Gram matrix.
enum class Zeros : int { none, sum, gram };

enum class Metric : int { identity, non_negative, real_valued };

// langevin: move the factors. score, weight: add the sum of the scores, or of their negative parts, times the
// other factor, to `sum` and leave the factors alone.
enum class Pass : int { langevin, score, weight };

template <class T>
struct Likelihood {
  int family;                    // its place in likelihood/registry.hpp
  T parameter[kMostParameters];  // of the family, besides phi
  T floor;                       // mu is not taken below this: 0/0 cannot happen
  bool zeros;                    // absent entries of a sparse matrix are zeros
  T zero_weight = 1;             // of each of them
};

template <class T>
struct Block {
  int rows = 0, columns = 0;  // of the outer and the inner strip
  int64_t entries = 0;
  // Dense: rows x leading, NaN where unobserved. Sparse: compressed rows.
  const T* dense = nullptr;
  int leading = 0;
  int tiles = 1;  // of a sparse block: its entries lie tile after tile of columns, in each row after row
  const uint32_t* start = nullptr;      // tiles x rows, + 1
  const uint32_t* row_start = nullptr;  // rows + 1: of all tiles together
  const uint16_t* index16 = nullptr;
  const uint32_t* index32 = nullptr;
  const uint8_t* tile_row = nullptr;  // of each entry: its row within the panel
  const T* value = nullptr;
  const T* weight = nullptr;  // one per cell of `dense` or per value; null: 1

  // The entries of one tile as a block.
  Block tile(int number) const {
    Block one = *this;
    one.tiles = 1;
    one.start += static_cast<size_t>(number) * rows;
    return one;
  }
};

// How many tiles of columns a sparse block has. More than one where the strip of the inner factor leaves the
// second-level cache, whatever B is, and where a row has an entry in each of them, on average: with fewer
// there is nothing to reuse. The data decide, never the machine: the order of the entries is that of the
// sums.
constexpr int tiles_of(int64_t rows, int64_t columns, int64_t entries) {
  if (columns < 2 * kTileColumns) return 1;
  const int64_t tiles = (columns + kTileColumns - 1) / kTileColumns;
  return entries >= tiles * rows ? static_cast<int>(tiles) : 1;
}

// A row takes whole vectors of any instruction set, or (close) only as many fours as its noise. Close rows
// are less memory to go through; whole ones are quicker to get at in any order, and can be multiplied as
// matrices.
constexpr int whole_stride(int components) { return (components + 15) / 16 * 16; }
constexpr int close_stride(int components) { return (components + 3) / 4 * 4; }

// What becomes of rows without entries: a step as for others, nothing, or a draw from their prior.
enum class Empty : int { move, stay, draw };

// They are drawn every so many iterations.
constexpr int kEmptyEvery = 4;

// How the rows of one factor move. Vectors have `stride` entries, kRowRun times; components that do not move
// have move = 0.
template <class T>
struct Rule {
  int components, stride;
  Metric metric;
  bool mirror;
  T step, scale, temperature, momentum;  // epsilon; s / phi; tau; rho
  // The prior's score is inverse / x + linear - quadratic x.
  T inverse;
  const T *linear, *quadratic, *move;
  // Real-valued metric: D = 1 / (count_i curvature_k + ridge_k).
  const T *curvature, *ridge;
  uint32_t tag;  // factor, in the noise counter: 0 = W, 1 = H
  uint64_t key, iteration;
  const T* coupling;  // stride x whole_stride: the precision of whole rows without its diagonal, or none
  Empty empty;
  const T *prior_mean, *prior_sd;  // from which rows without entries are drawn
};

template <class T>
struct Strip {
  int rows, full, occupied, stride;  // rows up to `full` have entries, those from `occupied` on have none
  T* x;                              // rows x stride
  T* momentum;                       // likewise, where rho > 0
  const uint32_t* ids;               // original indices
  const T* counts;                   // observed entries of each row, or the sum of their weights
  const T* inverse_root;             // 1 / sqrt(b), rows x stride: the non-negative metric
  T* sum;                            // where the passes that do not move anything add up
};

}  // namespace psgld
