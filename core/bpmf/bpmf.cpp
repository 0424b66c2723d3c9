// The rows of a factor shared out over threads: each row is drawn on its own, so it does not matter by whom.
#include "bpmf/bpmf.hpp"

#include <algorithm>
#include <vector>

#include "common/aligned.hpp"
#include "common/dispatch.hpp"

namespace psgld {

PSGLD_DISPATCH(BpmfKernels, bpmf_kernels)

namespace {

// One call of `work(first, last, scratch)` for every tile of rows; the results in the order of the tiles.
template <class T, class Work>
auto for_tiles(Pool& pool, int64_t rows, Work work) {
  const int64_t tiles = (rows + kRowTile - 1) / kRowTile;
  std::vector<decltype(work(0, 0, nullptr))> results(tiles);
  for_each(
      pool, tiles, [](int) { return OwnScratch<T>(); },
      [&](int64_t t, Scratch* scratch) {
        results[t] = work(t * kRowTile, std::min(rows, (t + 1) * kRowTile), scratch);
      });
  decltype(work(0, 0, nullptr)) total{};
  for (auto result : results) total += result;
  return total;
}

// Rows of whole vectors.
template <class T>
Aligned<T> padded(const T* x, int64_t rows, int components) {
  const int stride = (components + 15) / 16 * 16;
  Aligned<T> out(static_cast<size_t>(rows) * stride);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(x + i * components, components, out.data() + i * stride);
  return out;
}

}  // namespace

template <class T>
int draw_normal_rows(Pool& pool, NormalRows<T> job, int64_t rows, const T* other, int64_t other_rows) {
  const Aligned<T> y = padded(other, other_rows, job.components);
  job.other = y.data();
  return for_tiles<T>(pool, rows, [&](int64_t first, int64_t last, Scratch* scratch) {
    return bpmf_kernels<T>().normal_rows(job, first, last, scratch);
  });
}

template <class T>
double sum_residuals(Pool& pool, NormalRows<T> job, int64_t rows, const T* other, int64_t other_rows,
                     bool zeros) {
  const Aligned<T> y = padded(other, other_rows, job.components);
  job.other = y.data();
  return for_tiles<T>(pool, rows, [&](int64_t first, int64_t last, Scratch* scratch) {
    return bpmf_kernels<T>().residuals(job, zeros, first, last, scratch);
  });
}

#define PSGLD_INSTANTIATE(T)                                                       \
  template int draw_normal_rows(Pool&, NormalRows<T>, int64_t, const T*, int64_t); \
  template double sum_residuals(Pool&, NormalRows<T>, int64_t, const T*, int64_t, bool);
PSGLD_INSTANTIATE(float)
PSGLD_INSTANTIATE(double)
#undef PSGLD_INSTANTIATE

}  // namespace psgld
