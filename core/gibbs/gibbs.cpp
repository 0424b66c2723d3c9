// A sweep of the Gibbs sampler on a pool of threads: outer rows, then inner rows. gibbs.hpp says which.
#include "gibbs/gibbs.hpp"

#include <algorithm>

#include "common/dispatch.hpp"

namespace psgld {

PSGLD_DISPATCH(GibbsKernels, gibbs_kernels)

namespace {

constexpr int64_t kMostChunks = 256;

}  // namespace

template <class T>
Gibbs<T>::Gibbs(const Counts& data, int components)
    : data(data),
      components(components),
      stride_((components + kGibbsPad - 1) / kGibbsPad * kGibbsPad),
      outer_{data.outer_seen, data.outer_weight, {}, {}},
      inner_{data.inner_seen, data.inner_weight, {}, {}},
      placed_(Aligned<T>(data.inner_rows * stride_)) {
  // Rough costs: a gamma draw counts as much as four counts, an entry as sixteen.
  std::vector<double> cost(data.outer_rows, 4.0 * components);
  for (int64_t i = 0; i < data.outer_rows; ++i)
    for (int64_t p = data.positive.start[i]; p < data.positive.start[i + 1]; ++p)
      cost[i] += 16.0 + data.count[p];
  cut(outer_, cost);
  cost.assign(data.inner_rows, 4.0 * components);
  if (!data.inner_seen.start.empty())
    for (int64_t j = 0; j < data.inner_rows; ++j)
      cost[j] += static_cast<double>(data.inner_seen.start[j + 1] - data.inner_seen.start[j]);
  cut(inner_, cost);
}

// Cuts the rows into at most kMostChunks runs of about equal cost, by the data alone.
template <class T>
void Gibbs<T>::cut(Side& side, const std::vector<double>& cost) {
  double all = 0, run = 0;
  for (double c : cost) all += c;
  const double most = all / std::min<int64_t>(kMostChunks, static_cast<int64_t>(cost.size()));
  side.chunks = {0};
  for (size_t i = 0; i < cost.size(); ++i) {
    run += cost[i];
    if (run >= most || i + 1 == cost.size()) {
      side.chunks.push_back(static_cast<int64_t>(i) + 1);
      run = 0;
    }
  }
  side.sums.assign((side.chunks.size() - 1) * components, 0.0);
}

template <class T>
void Gibbs<T>::sum_chunk(Side& side, const T* x, int64_t chunk) {
  double* sum = side.sums.data() + chunk * components;
  std::fill_n(sum, components, 0.0);
  for (int64_t i = side.chunks[chunk]; i < side.chunks[chunk + 1]; ++i)
    for (int k = 0; k < components; ++k) sum[k] += x[i * components + k];
}

// The column sums of a factor: those of its chunks, in their order.
template <class T>
void Gibbs<T>::total(const Side& side, double* out) const {
  std::fill_n(out, components, 0.0);
  for (size_t q = 0; q < side.sums.size(); q += components)
    for (int k = 0; k < components; ++k) out[k] += side.sums[q + k];
}

// rate_k plus the sum of the other factor over what a row has observed; `all` is the sum over everything.
template <class T>
void Gibbs<T>::rates(const Side& side, const Factor& factor, int64_t row, const T* other, const double* all,
                     double* out) const {
  std::copy_n(factor.rate.data(), components, out);
  if (data.everywhere != 0)
    for (int k = 0; k < components; ++k) out[k] += data.everywhere * all[k];
  if (side.seen.start.empty()) return;
  const int64_t first = side.seen.start[row], last = side.seen.start[row + 1];
  gibbs_kernels<T>().add_rows(other, components, side.seen.index.data() + first,
                              side.weight.empty() ? nullptr : side.weight.data() + first, last - first, out);
}

template <class T>
void Gibbs<T>::place(int64_t row, const T* x) {
  std::copy_n(x + row * components, components, placed_.data() + row * stride_);
}

template <class T>
void Gibbs<T>::advance(Pool& pool, uint64_t key, uint64_t t, int64_t n, const Factor& outer,
                       const Factor& inner) {
  const GibbsKernels<T>& kernels = gibbs_kernels<T>();
  const size_t inner_size = static_cast<size_t>(data.inner_rows) * stride_;
  // All memory first: a sweep that has begun ends.
  while (threads_.size() < static_cast<size_t>(pool.size()))
    threads_.push_back({Aligned<int32_t>(inner_size), Aligned<T>(stride_), Aligned<int32_t>(stride_),
                        Aligned<double>(stride_)});
  std::vector<double> all(components);
  auto own = [&](int thread) -> Thread& { return threads_[thread]; };
  const auto outer_chunks = static_cast<int64_t>(outer_.chunks.size()) - 1;
  const auto inner_chunks = static_cast<int64_t>(inner_.chunks.size()) - 1;

  for_each(pool, inner_chunks, [&](int64_t chunk) {
    sum_chunk(inner_, inner.x, chunk);
    for (int64_t j = inner_.chunks[chunk]; j < inner_.chunks[chunk + 1]; ++j) place(j, inner.x);
  });
  for (uint64_t sweep = t; sweep < t + n; ++sweep) {
    total(inner_, all.data());
    for_each(pool, outer_chunks, own, [&](int64_t chunk, Thread& mine) {
      for (int64_t i = outer_.chunks[chunk]; i < outer_.chunks[chunk + 1]; ++i) {
        const GibbsNoise noise{key, sweep, static_cast<uint32_t>(i), 0};
        std::copy_n(outer.x + i * components, components, mine.row.data());
        std::fill_n(mine.sums.data(), stride_, 0);
        const int64_t first = data.positive.start[i], last = data.positive.start[i + 1];
        kernels.allocate(mine.row.data(), placed_.data(), components, stride_,
                         {data.positive.index.data() + first, data.count.data() + first, last - first}, noise,
                         {mine.sums.data(), mine.inner_sums.data()});
        rates(outer_, outer, i, inner.x, all.data(), mine.rate.data());
        kernels.gammas(mine.sums.data(), outer.shape, mine.rate.data(), components, noise,
                       outer.x + i * components);
      }
      sum_chunk(outer_, outer.x, chunk);
    });
    total(outer_, all.data());
    for_each(pool, inner_chunks, own, [&](int64_t chunk, Thread& mine) {
      for (int64_t j = inner_.chunks[chunk]; j < inner_.chunks[chunk + 1]; ++j) {
        std::fill_n(mine.sums.data(), stride_, 0);
        for (Thread& thread : threads_) {
          int32_t* row = thread.inner_sums.data() + j * stride_;
          for (int k = 0; k < stride_; ++k) mine.sums[k] += row[k];
          std::fill_n(row, stride_, 0);
        }
        rates(inner_, inner, j, outer.x, all.data(), mine.rate.data());
        kernels.gammas(mine.sums.data(), inner.shape, mine.rate.data(), components,
                       {key, sweep, static_cast<uint32_t>(j), 1}, inner.x + j * components);
        place(j, inner.x);
      }
      sum_chunk(inner_, inner.x, chunk);
    });
  }
}

template class Gibbs<float>;
template class Gibbs<double>;

}  // namespace psgld
