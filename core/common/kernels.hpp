// What the kernels are given and which they are: plain structures that do not depend on the instruction set.
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
constexpr int kKernelRun = 32;      // log likelihoods summed by themselves, whoever does it
constexpr int kTilePairs = 16;      // pairs whose draws are sorted side by side
constexpr int kLookColumns = 16;    // columns of a row that are looked at together
constexpr int kWholeRows = 48;      // rows that are made whole numbers together
constexpr int kFirstWords = 8;      // of a stream, at most so many made for all pairs of a tile at once

constexpr int kMostParameters = 8;  // of a likelihood, besides phi

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
};

template <class T>
struct Block {
  int rows = 0, columns = 0;  // of the outer and the inner strip
  int64_t entries = 0;
  // Dense: rows x leading, NaN where unobserved. Sparse: compressed rows.
  const T* dense = nullptr;
  int leading = 0;
  const uint32_t* start = nullptr;  // rows + 1
  const uint16_t* index16 = nullptr;
  const uint32_t* index32 = nullptr;
  const uint8_t* tile_row = nullptr;  // of each entry: its row within the panel
  const T* value = nullptr;
};

// A row takes whole vectors of any instruction set, or (close) only as many fours as its noise. Close rows
// are less memory to go through; whole ones are quicker to get at in any order, and can be multiplied as
// matrices.
constexpr int whole_stride(int components) { return (components + 15) / 16 * 16; }
constexpr int close_stride(int components) { return (components + 3) / 4 * 4; }

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
};

template <class T>
struct Strip {
  int rows, stride;
  T* x;                   // rows x stride
  T* momentum;            // likewise, where rho > 0
  const uint32_t* ids;    // original indices
  const T* counts;        // observed entries of each row
  const T* inverse_root;  // 1 / sqrt(b), rows x stride: the non-negative metric
  T* sum;                 // where the passes that do not move anything add up
};

// Running sums of mu over the draws, at some rows and a stretch of columns (score_tile.hpp): its mean;
// besides, its sd, or the share above the threshold; or the bound mean + threshold sd.
enum class ScoreKind : int { mean, sd, above, bound };

template <class T>
struct ScoreTile {
  int64_t draws, rows, columns;
  int components;
  const T *w, *h;                // draws x rows x components, draws x columns x components
  const T *row_bias, *col_bias;  // draws x rows, draws x columns; or null
  const double* offset;          // one a draw
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
  const char* whole;       // the rows as whole numbers
  const Largest* largest;  // of each row
  float *upper, *width;    // rows x columns, and one a row
};

// Upper bounds of all columns of some rows, and the columns that matter scored as `scores` does: for floats,
// where there are products of whole numbers. The functions that say bool return false where the values are
// too large.
struct ScreenKernels {
  int most_components, tile_rows;
  size_t (*whole_size)(const ScoreTile<float>&);  // bytes
  bool (*whole_rows)(const ScoreTile<float>&, int64_t first, char* whole, Largest*);
  bool (*screen)(const ScreenTile&);
  void (*look)(const ScoreTile<float>&, int64_t n, const int64_t* rows, const int32_t* columns, float* out);
};

// The rows of one factor given the other, in a Gaussian model: x_i ~ N(P_i^-1 b_i, P_i^-1), where
//   P_i = precision + sum_j y_j y_j' / phi,   b_i = linear + sum_j v_ij y_j / phi
// over the stored entries of the row; components that do not move are conditioned on.
template <class T>
struct NormalRows {
  int components;
  const int64_t* start;  // compressed rows
  const int32_t* index;
  const T* value;
  const T* other;           // y, rows x stride, aligned
  T* x;                     // rows x components
  const double* precision;  // components x components, symmetric
  const double* linear;     // components
  const double* move;       // 0 where x does not move
  double phi;
  bool shared;  // `precision` holds the sum over j already: every column is observed in every row
  uint32_t tag;
  uint64_t key, iteration;
};

struct Scratch;  // of one thread; private to the kernels

template <class T>
struct Kernels {
  const char* name;
  Scratch* (*make_scratch)();
  void (*free_scratch)(Scratch*);
  // Elements of the buffer in which one chunk of a block collects the inner gradient.
  size_t (*partial_size)(int inner_rows, int stride, const Likelihood<T>&);
  // Rows [first, last) of a block: the gradients of both sides, then (langevin) the step of the outer rows.
  // Returns the sum of squared residuals where the score is the residual.
  double (*outer_rows)(const Block<T>&, const Likelihood<T>&, Pass, const Rule<T>&, const Strip<T>& outer,
                       const Strip<T>& inner, int first, int last, T* partial, Scratch*);
  // The inner side of a block, when all its chunks are done: add up the partial gradients, in order, and
  // step.
  void (*inner_rows)(const Likelihood<T>&, Pass, const Rule<T>&, const Strip<T>& inner, T* const* partials,
                     int n, Scratch*);
  // n entries of rows [first, last) of a block, drawn with replacement, as a block that lives in the scratch.
  Block<T> (*subsample)(const Block<T>&, bool cells, int first, int last, int n, uint32_t stream, uint64_t t,
                        uint64_t key, Scratch*);
  void (*noise)(const uint32_t* ids, int64_t rows, int components, uint32_t tag, uint64_t iteration,
                uint64_t key, float* out, int stride, Scratch*);
  void (*dots)(const T* x, int64_t x_stride, const T* y, int64_t y_stride, int components, const int64_t* i,
               const int64_t* j, int64_t n, T* out);
  double (*log_kernel)(const Likelihood<T>&, const T* v, const T* mu, int64_t n);
  // Column sums of x, of x^2, and of x^2 weighted by the counts, unless `weighted` is null.
  void (*column_sums)(const T* x, const T* counts, int64_t rows, int stride, int components, double* sum,
                      double* squares, double* weighted);
  // Row r of x becomes row ids[r] of out: whole cache lines, past the caches.
  void (*stream_rows)(const T* x, int64_t rows, int stride, const uint32_t* ids, int64_t width, T* out);
  // The mean of mu over the draws, and its sd or the share above the threshold: rows `columns` apart.
  void (*scores)(const ScoreTile<T>&, T* mean, T* second);
  // Adds x x' over the rows to sum, components x components.
  void (*gram)(const T* x, int64_t rows, int64_t x_stride, int components, double* sum, Scratch*);
  // Draws rows [first, last), at most kRowTile; returns how many had no Cholesky factor and stayed.
  int (*normal_rows)(const NormalRows<T>&, int64_t first, int64_t last, Scratch*);
  // The sum of (v - mu)^2 over the stored entries of rows [first, last), or with `zeros` of v^2 - 2 v mu.
  double (*residuals)(const NormalRows<T>&, bool zeros, int64_t first, int64_t last, Scratch*);
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
const Kernels<T>& kernels();  // the best this machine has, or what PSGLD_ISA says

// Scratch that goes with whoever made it.
template <class T>
class OwnScratch {
 public:
  OwnScratch() : scratch_(kernels<T>().make_scratch()) {}
  OwnScratch(const OwnScratch&) = delete;
  OwnScratch& operator=(const OwnScratch&) = delete;
  ~OwnScratch() { kernels<T>().free_scratch(scratch_); }
  operator Scratch*() const { return scratch_; }

 private:
  Scratch* scratch_;
};
const char* instruction_set();

}  // namespace psgld
