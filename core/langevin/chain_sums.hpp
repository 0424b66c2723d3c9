// What is read off the factors of a chain: sums over strips, the log kernel at entries, copies. Members of
// Chain, compiled with chain.cpp.
#pragma once

#include <algorithm>
#include <numeric>

#include "langevin/chain.hpp"
#include "langevin/group_sums.hpp"
#include "simd/streaming_store.hpp"

namespace psgld {

// Sums over a factor: of x, x^2, log x and count x^2; at a mark, of the first three.
constexpr int kAllSums = 4, kMarkSums = 3;

// Runs of entries whose log kernels are added up first.
template <class T>
size_t kernel_runs(const Monitored<T>& monitored) {
  return (monitored.values.size() + kKernelRun - 1) / kKernelRun;
}

template <class T>
double Chain<T>::strip_squares(int strip) const {
  const size_t block = static_cast<size_t>(strip) * grid.parts, last = block + grid.parts;
  const int end = last < grid.chunk_slot.size() ? grid.chunk_slot[last] : grid.chunk_slots;
  double total = 0;
  for (int slot = grid.chunk_slot[block]; slot < end; ++slot) total += squares_[slot];
  return total;
}

template <class T>
double Chain<T>::squares() const {
  std::vector<double> strips(grid.strips);
  for (int b = 0; b < grid.strips; ++b) strips[b] = strip_squares(b);
  double total;
  add_grouped(strips.data(), strips.size(), 1, &total);
  return total;
}

template <class T>
double Chain<T>::fresh_squares(Pool& pool) {
  struct Kept {
    Aligned<T>& place;
    Aligned<T> sum = std::move(place);
    ~Kept() { place = std::move(sum); }
  } outer_sum{outer.sum}, inner_sum{inner.sum};
  accumulate(pool, Pass::score, -1);
  return squares();
}

template <class T>
void Chain<T>::strip_sums(const Side<T>& side, const Factor<T>& factor, int strip, double* out,
                          int quantities) const {
  const size_t first = side.first[strip];
  double* logs = out + 2 * components;
  if (!sums_logs) std::fill_n(logs, components, 0.0);
  langevin_kernels<T>().column_sums(factor.x.data() + first * factor.stride, side.counts.data() + first,
                                    side.rows[strip], factor.stride, components,
                                    {out, out + components, sums_logs ? logs : nullptr,
                                     quantities == kAllSums ? logs + components : nullptr});
}

template <class T>
void Chain<T>::take_sums(const Side<T>& side, const Factor<T>& factor, int strip, int quantities) {
  const size_t place = strip + (&factor == &outer ? 0 : grid.outer.rows.size());
  strip_sums(side, factor, strip, &strip_sums_[place * kAllSums * components], quantities);
}

template <class T>
void Chain<T>::sums(Pool& pool, double* out) {
  if (!summed_) pool.run([&](int id) { share_sums(id, pool.size(), kAllSums); });
  summed_ = true;
  share_groups(0, 1, 0, kAllSums);
  add_up_groups(out, kAllSums);
}

template <class T>
void Chain<T>::share_sums(int id, int n, int quantities) {
  const size_t b = grid.outer.rows.size(), c = grid.inner.rows.size();
  for (size_t s = b * id / n; s < b * (id + 1) / n; ++s)
    take_sums(grid.outer, outer, static_cast<int>(s), quantities);
  for (size_t s = c * id / n; s < c * (id + 1) / n; ++s)
    take_sums(grid.inner, inner, static_cast<int>(s), quantities);
}

template <class T>
void Chain<T>::share_groups(int id, int n, int part, int quantities) {
  const size_t strips[] = {grid.outer.rows.size(), grid.inner.rows.size()};
  const size_t stride = kAllSums * static_cast<size_t>(components), width = quantities * components;
  const size_t shift[] = {0, grid.inner_strip(0, part) * kGroups / strips[1]};
  for (int inner : {0, 1}) {
    const double* table = &strip_sums_[inner * strips[0] * stride];
    for (size_t j = kGroups * id / n; j < kGroups * (id + 1) / n; ++j) {
      const size_t group = (j + shift[inner]) % kGroups;
      add_group(table, strips[inner], stride, width, group, &group_sums_[(inner * kGroups + group) * stride]);
    }
  }
}

template <class T>
void Chain<T>::add_up_groups(double* out, int quantities) const {
  const size_t stride = kAllSums * static_cast<size_t>(components), width = quantities * components;
  for (const Factor<T>* f : {&outer, &inner})
    add_groups(&group_sums_[(f == &outer ? 0 : kGroups) * stride], stride, width, out + f->tag * width);
}

template <class T>
void Chain<T>::share_kernel(int id, int n, const Monitored<T>& monitored, std::span<double> totals) const {
  constexpr size_t run = kKernelRun, several = 8;
  const Factor<T>&w = factor(0), &h = factor(1);
  T mu[several * run];
  const size_t end = totals.size() * (id + 1) / n;
  for (size_t q = totals.size() * id / n; q < end; q += several) {
    const size_t first = q * run, last = std::min(std::min(q + several, end) * run, monitored.values.size());
    langevin_kernels<T>().dots(w.rows(), h.rows(), components, monitored.rows.data() + first,
                               monitored.columns.data() + first, static_cast<int64_t>(last - first), mu);
    for (size_t at = first; at < last; at += run)
      totals[at / run] = langevin_kernels<T>().log_kernel(
          likelihood, monitored.values.data() + at,
          monitored.weights.empty() ? nullptr : monitored.weights.data() + at, mu + at - first,
          static_cast<int64_t>(std::min(run, last - at)));
  }
}

template <class T>
double Chain<T>::log_kernel_at(Pool& pool, const Monitored<T>& monitored) const {
  std::vector<double> totals(kernel_runs(monitored));
  pool.run([&](int id) { share_kernel(id, pool.size(), monitored, totals); });
  return std::accumulate(totals.begin(), totals.end(), 0.0);
}

// Written one after the other: it is `out` that is in no cache.
template <class T>
void Chain<T>::share_gather(int id, int n, int which, const Aligned<T>& from, T* out, size_t width) const {
  const Side<T>& s = side(which);
  const size_t stride = factor(which).stride;
  for (size_t i = s.size() * id / n; i < s.size() * (id + 1) / n; ++i)
    if (s.here(i)) stream(from.data() + s.position(i) * stride, width, out + i * width);
  end_stream();
}

// Rows that are whole cache lines go out in any order: each thread has those of its strips at hand. Others
// would be written in pieces, which is slow.
template <class T>
void Chain<T>::share_draw(int id, int n, int which, int part, T* out, size_t width) const {
  const Side<T>& s = side(which);
  const Factor<T>& f = factor(which);
  if (!whole_lines(out, width)) return share_gather(id, n, which, f.x, out, width);
  const size_t strips = s.rows.size(), shift = &f == &outer ? 0 : grid.inner_strip(0, part);
  for (size_t j = strips * id / n; j < strips * (id + 1) / n; ++j) {
    const size_t strip = (j + shift) % strips, first = s.first[strip];
    langevin_kernels<T>().stream_rows(f.x.data() + first * f.stride, s.rows[strip], f.stride,
                                      s.ids.data() + first, static_cast<int64_t>(width), out);
  }
  end_stream();
}

// Most of the time goes to the pages of a new array, which the threads fetch side by side.
template <class T>
void Chain<T>::gather(Pool& pool, int which, const Aligned<T>& from, T* out, size_t width) const {
  const bool small = side(which).size() * width < (1u << 14);
  if (small) return share_gather(0, 1, which, from, out, width);
  pool.run([&](int id) { share_gather(id, pool.size(), which, from, out, width); });
}

template <class T>
void Chain<T>::strip_gram(const Side<T>& side, const Factor<T>& factor, int strip, double* out) const {
  langevin_kernels<T>().gram(factor.x.data() + static_cast<size_t>(side.first[strip]) * factor.stride,
                             side.rows[strip], factor.stride, components, out, OwnScratch<T>());
}

}  // namespace psgld
