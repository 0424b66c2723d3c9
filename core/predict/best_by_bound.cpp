// The columns with the highest mean + threshold sd of mu: all of them screened (screen.hpp), then those that
// can be among the best scored as `scores` does. If n upper bounds of a row are at least x, and none is
// further than its width above the score, then n scores are at least x - width: a column with an upper bound
// below that is not among the n best.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <type_traits>
#include <vector>

#include "predict/best_columns.hpp"
#include "predict/predict.hpp"

namespace psgld {
namespace {

// Of a tile, whose sums stay in the second-level cache, and of all rows quantised, in bytes.
constexpr int64_t kScreenRows = 516, kScreenColumns = 128, kQuantizedBytes = int64_t{1} << 28;
constexpr int64_t kRescoreGroups = 64;   // of a task
constexpr int64_t kMostDraws = 100'000;  // whose sums, and the widest threshold,
constexpr double kMostThreshold = 1e6;   // that the bound was made for
constexpr double kTooMany = 0.25;        // of the columns: rescoring them would take longer

// A block of rows.
class Screen {
 public:
  Screen(Pool& pool, const ScreenKernels& kernels, const ScoreTile<float>& block, const Selection& wanted)
      : pool_(pool), k_(kernels), t_(block), wanted_(wanted), rows_(block.n_rows) {}

  // Returns how many cells were rescored, or -1 if the screen cannot tell.
  int64_t choose(int64_t* out) {
    if (!bound()) return -1;
    const std::vector<std::vector<int32_t>> left = leave();
    std::vector<int64_t> first(rows_ + 1);  // of the groups of a row
    for (int64_t r = 0; r < rows_; ++r) {
      if (static_cast<double>(left[r].size()) > kTooMany * static_cast<double>(t_.columns)) return -1;
      first[r + 1] =
          first[r] + (static_cast<int64_t>(left[r].size()) + kRescoreColumns - 1) / kRescoreColumns;
    }
    const std::vector<float> score = rescore(left, first);
    for_each(pool_, rows_, [&](int64_t r) {
      const float* a = score.data() + first[r] * kRescoreColumns;
      const int64_t size = static_cast<int64_t>(left[r].size());
      const std::vector<int64_t> top = best_columns<float>(a, nullptr, size, {}, nullptr, wanted_.n);
      int64_t* to =
          std::transform(top.begin(), top.end(), out + r * wanted_.n, [&](int64_t q) { return left[r][q]; });
      std::fill(to, out + (r + 1) * wanted_.n, int64_t{-1});
    });
    return first[rows_] * kRescoreColumns;
  }

 private:
  // Upper bounds, and widths for each stretch of columns.
  bool bound() {
    const auto quantized = std::make_unique_for_overwrite<char[]>(k_.quantized_size(t_));
    std::vector<Largest> largest(rows_);
    std::atomic<bool> fits{true};
    for_each(pool_, (rows_ + kQuantizeRows - 1) / kQuantizeRows, [&](int64_t b) {
      if (!k_.quantize_rows(t_, b * kQuantizeRows, quantized.get(), largest.data())) fits = false;
    });
    const int64_t tiles = (rows_ + k_.tile_rows - 1) / k_.tile_rows;
    const int64_t down = (rows_ + kScreenRows - 1) / kScreenRows;
    const int64_t across = (t_.columns + kScreenColumns - 1) / kScreenColumns;
    upper_ = std::make_unique_for_overwrite<float[]>(rows_ * t_.columns);
    width_.resize(rows_ * across);
    for_each(pool_, down * across, [&](int64_t tile) {
      if (!fits) return;
      const int64_t d = tile % down, a = tile / down;  // the same columns again, while they are in cache
      ScreenTile s{t_,
                   d * tiles / down,
                   (d + 1) * tiles / down - d * tiles / down,
                   quantized.get(),
                   largest.data(),
                   upper_.get(),
                   width_.data() + a * rows_};
      s.scores.first_column = a * kScreenColumns;
      s.scores.n_columns = static_cast<int>(std::min(kScreenColumns, t_.columns - a * kScreenColumns));
      if (!k_.screen(s)) fits = false;
    });
    return fits;
  }

  // The columns of each row that can be among its best.
  std::vector<std::vector<int32_t>> leave() {
    std::vector<std::vector<int32_t>> left(rows_);
    for_each(pool_, rows_, [&](int64_t r) {
      const float* upper = upper_.get() + r * t_.columns;
      const std::vector<int64_t> top =
          best_columns<float>(upper, nullptr, t_.columns, wanted_.seen_of(r), wanted_.allowed, wanted_.n);
      float width = 0;
      for (size_t at = r; at < width_.size(); at += rows_) width = std::max(width, width_[at]);
      const bool full = static_cast<int64_t>(top.size()) == wanted_.n;
      const double least = full ? static_cast<double>(upper[top.back()]) - width : -INFINITY;
      const float limit = std::nextafter(static_cast<float>(least), -INFINITY);
      Candidates candidates(wanted_.seen_of(r), wanted_.allowed);
      for (int64_t j = 0; j < t_.columns; ++j)
        if (!(upper[j] < limit) && candidates.has(j)) left[r].push_back(static_cast<int32_t>(j));
    });
    return left;
  }

  // Their scores, kRescoreColumns at a time; the last of a row fills up its group.
  std::vector<float> rescore(const std::vector<std::vector<int32_t>>& left,
                             const std::vector<int64_t>& first) {
    const int64_t groups = first[rows_];
    std::vector<int64_t> row(groups);
    std::vector<int32_t> column(groups * kRescoreColumns);
    std::vector<float> score(groups * kRescoreColumns);
    for (int64_t r = 0; r < rows_; ++r) {
      std::fill(row.begin() + first[r], row.begin() + first[r + 1], t_.row_ids[r]);
      auto to = column.begin() + first[r] * kRescoreColumns;
      std::fill(std::copy(left[r].begin(), left[r].end(), to),
                column.begin() + first[r + 1] * kRescoreColumns, left[r].empty() ? 0 : left[r].back());
    }
    for_each(pool_, (groups + kRescoreGroups - 1) / kRescoreGroups, [&](int64_t task) {
      const int64_t g = task * kRescoreGroups, at = g * kRescoreColumns;
      k_.rescore(t_, std::min(kRescoreGroups, groups - g), row.data() + g, column.data() + at,
                 score.data() + at);
    });
    return score;
  }

  Pool& pool_;
  const ScreenKernels& k_;
  const ScoreTile<float> t_;
  const Selection wanted_;
  const int64_t rows_;
  std::unique_ptr<float[]> upper_;  // without values at first: it is large
  std::vector<float> width_;
};

// All cells, as floats.
template <class T>
int64_t choose_plainly(Pool& pool, const Draws<T>& d, Index rows, double threshold, const Selection& wanted,
                       int64_t* out) {
  const int64_t n = static_cast<int64_t>(rows.size());
  std::vector<T> score(n * d.columns);
  scores<T>(pool, d, rows, ScoreKind::bound, threshold, score.data(), nullptr);
  best<T>(pool, score.data(), nullptr, n, d.columns, wanted, out);
  return n * d.columns;
}

}  // namespace

template <class T>
int64_t best_by_bound(Pool& pool, const Draws<T>& d, Index rows, double threshold, const Selection& wanted,
                      int64_t* out) {
  const ScreenKernels* k = predict_kernels<T>().screen;
  const bool can = k && d.components <= k->most_components && d.draws <= kMostDraws &&
                   std::abs(threshold) <= kMostThreshold &&
                   static_cast<double>(wanted.n) <= kTooMany * static_cast<double>(d.columns);
  if (!can) return choose_plainly(pool, d, rows, threshold, wanted, out);
  int64_t rescored = 0;
  if constexpr (std::is_same_v<T, float>) {
    const int64_t size = std::max(kScreenRows, kQuantizedBytes / (d.draws * (2 * d.components + 12)));
    for (int64_t r = 0; r < static_cast<int64_t>(rows.size()); r += size) {
      const Index part = rows.subspan(r, std::min<size_t>(size, rows.size() - r));
      const ScoreTile<float> block = score_tile(d, part, 0, 0, ScoreKind::bound, threshold);
      const Selection of_part{wanted.start + r, wanted.seen, wanted.allowed, wanted.n};
      const int64_t again = Screen(pool, *k, block, of_part).choose(out + r * wanted.n);
      rescored += again >= 0 ? again : choose_plainly(pool, d, part, threshold, of_part, out + r * wanted.n);
    }
  }
  return rescored;
}
template int64_t best_by_bound<float>(Pool&, const Draws<float>&, Index, double, const Selection&, int64_t*);
template int64_t best_by_bound<double>(Pool&, const Draws<double>&, Index, double, const Selection&,
                                       int64_t*);

}  // namespace psgld
