// The kernels of predictions: new observations, quantiles, scores of all columns. Compiled once per
// instruction-set level.
#pragma once

#include <cstddef>
#include <cstdint>

namespace psgld {

constexpr int kTilePairs = 16;       // pairs whose draws are sorted side by side
constexpr int kRescoreColumns = 16;  // columns of a row that are rescored together
constexpr int kQuantizeRows = 48;    // rows that are quantised together
constexpr int kFirstWords = 8;       // of a stream, at most so many made for all pairs of a tile at once

// Running sums of mu over the draws, at some rows and a stretch of columns (score_tile.hpp): its mean;
// besides, its sd, or the share above the threshold; or the bound mean + threshold sd.
enum class ScoreKind : int { mean, sd, above, bound };

template <class T>
struct ScoreTile {
  int64_t draws, rows, columns;
  int components;
  const T *w, *h;                // draws x rows x components, draws x columns x components
  const T *row_bias, *col_bias;  // draws x rows, draws x columns; or null
  const double* offset;          // one per draw
  const int64_t* row_ids;
  int n_rows;
  int64_t first_column;
  int n_columns;
  ScoreKind kind;
  T threshold;
};

// Of a row or a column over the draws: the largest length, the sum of its fourth powers, and the largest size
// of what is added to its products.
struct Largest {
  float length, fourth, add;
};

// Tiles of rows of a block and a stretch of columns, to be screened (screen.hpp).
struct ScreenTile {
  ScoreTile<float> scores;  // all rows of the block
  int64_t first_tile, n_tiles;
  const char* quantized;   // the rows quantised
  const Largest* largest;  // of each row
  float *upper, *width;    // rows x columns, and one per row
};

// Upper bounds of all columns of some rows, and the columns that matter scored as `scores` does: for floats,
// where there are products of integers. The functions that say bool return false where the values are
// too large.
struct ScreenKernels {
  int most_components, tile_rows;
  size_t (*quantized_size)(const ScoreTile<float>&);  // bytes
  bool (*quantize_rows)(const ScoreTile<float>&, int64_t first, char* quantized, Largest*);
  bool (*screen)(const ScreenTile&);
  void (*rescore)(const ScoreTile<float>&, int64_t n, const int64_t* rows, const int32_t* columns,
                  float* out);
};

template <class T>
struct PredictKernels {
  // The mean of mu over the draws, and its sd or the share above the threshold: rows `columns` apart.
  void (*scores)(const ScoreTile<T>&, T* mean, T* second);
  // x += sqrt(phi) z at n <= kTilePairs pairs, draws x stride: new observations of a Gaussian model.
  void (*add_noise)(const int64_t* rows, const int64_t* columns, int n, int64_t draws, const double* phi,
                    uint64_t seed, T* x, int64_t stride);
  // The first words (a multiple of four) of the streams (seed; row, column, draw) of scalar_stream.hpp: out
  // is aligned to 64 bytes.
  void (*first_words)(const int64_t* rows, const int64_t* columns, int n, uint32_t draw, uint64_t seed,
                      int number, uint32_t (*out)[kTilePairs]);
  // New observations at kTilePairs pairs in one draw, from those words and the widths of the ziggurat: in
  // place of their means x, aligned to 64 bytes; a bit for each pair where it takes more words. Of families
  // that have a first try.
  uint32_t (*first_try)(const Likelihood<double>&, double phi, const uint32_t (*words)[kTilePairs],
                        const double* ziggurat, double* x);
  // Sorts each of the kTilePairs columns of x, n x kTilePairs, aligned to 64 bytes.
  void (*sort_lanes)(T* x, int64_t n);
  const ScreenKernels* screen;  // or null
};

template <class T>
const PredictKernels<T>& predict_kernels();

}  // namespace psgld
