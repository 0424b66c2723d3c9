#include "langevin/chain.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "common/dispatch.hpp"
#include "langevin/chain_sums.hpp"

namespace psgld {

PSGLD_DISPATCH(LangevinKernels, langevin_kernels)

// Bytes of a strip that is still in the cache when it has been updated.
static constexpr size_t kInCache = 1 << 17;

// What a thread needs: scratch of the kernels, and a partial gradient for blocks of one chunk.
template <class T>
struct Chain<T>::Worker {
  OwnScratch<T> scratch;
  Aligned<T> partial;
  explicit Worker(size_t size) : partial(size) {}
};

template <class T>
Chain<T>::Chain(const Grid<T>& grid, int components, bool swapped, const Likelihood<T>& likelihood,
                bool close)
    : components(components),
      grid(grid),
      likelihood(likelihood),
      squares_(grid.chunk_slots),
      remaining_(grid.strips),
      slot_(grid.strips),
      strip_sums_((grid.outer.rows.size() + grid.inner.rows.size()) * kAllSums * components),
      group_sums_(2 * kGroups * kAllSums * components) {
  auto prepare = [&](Factor<T>& factor, const Side<T>& side, uint32_t tag, int stride) {
    factor.x = Aligned<T>(side.positions * stride);
    factor.stride = stride;
    for (auto* vector : {&factor.linear, &factor.quadratic, &factor.move, &factor.curvature, &factor.ridge,
                         &factor.prior_mean, &factor.prior_sd})
      *vector = Aligned<T>(kRowRun * stride);
    std::fill_n(factor.ridge.data(), kRowRun * stride, T(1));
    set_vector(factor.move, std::vector<T>(components, 1));
    factor.tag = tag;
    for (size_t b = 0; b < side.rows.size(); ++b) {
      const T* counts = side.counts.data() + side.first[b];
      int full = 0, occupied = side.rows[b];
      while (full < occupied && counts[full] != T(0)) ++full;
      while (occupied > 0 && counts[occupied - 1] == T(0)) --occupied;
      factor.full.push_back(full);
      factor.occupied.push_back(occupied);
    }
  };
  const bool whole = grid.blocks[0].dense || likelihood.zeros;
  prepare(outer, grid.outer, swapped ? 1 : 0,
          close && !whole ? close_stride(components) : whole_stride(components));
  prepare(inner, grid.inner, swapped ? 0 : 1, whole_stride(components));
  for (auto& slot : slot_) slot = -1;
  for (int rows : grid.inner.rows)
    partial_size_ =
        std::max(partial_size_, langevin_kernels<T>().partial_size(rows, inner.stride, likelihood));
  partial_size_ = (partial_size_ + 63) / 64 * 64;
}

template <class T>
Chain<T>::~Chain() = default;

template <class T>
void Chain<T>::prepare_empty(Factor<T>& f) const {
  f.draws_empty = !mirror && f.inverse == 0 && !f.coupling.data();
  for (int k = 0; k < components; ++k) {
    const bool moves = f.move[k] != 0;
    if (moves && !(f.quadratic[k] > 0)) f.draws_empty = false;
    f.prior_mean[k] = moves ? f.linear[k] / f.quadratic[k] : 0;
    f.prior_sd[k] = moves ? std::sqrt(temperature / f.quadratic[k]) : 0;
  }
}

template <class T>
Rule<T> Chain<T>::rule(const Factor<T>& f, uint64_t t, double step, double scale) const {
  return {components,
          f.stride,
          metric,
          mirror,
          static_cast<T>(step),
          static_cast<T>(scale / static_cast<double>(phi)),
          temperature,
          momentum,
          f.inverse,
          f.linear.data(),
          f.quadratic.data(),
          f.move.data(),
          f.curvature.data(),
          f.ridge.data(),
          f.tag,
          key,
          t,
          f.coupling.data(),
          !f.draws_empty         ? Empty::move
          : t % kEmptyEvery == 0 ? Empty::draw
                                 : Empty::stay,
          f.prior_mean.data(),
          f.prior_sd.data()};
}

template <class T>
Strip<T> Chain<T>::strip(const Side<T>& side, const Factor<T>& f, int number) const {
  const size_t first = side.first[number], at = first * f.stride;
  auto row = [at](const Aligned<T>& a) { return a.data() ? a.data() + at : nullptr; };
  return {side.rows[number],
          f.full[number],
          f.occupied[number],
          f.stride,
          row(f.x),
          row(f.momentum),
          side.ids.data() + first,
          side.counts.data() + first,
          row(f.inverse_root),
          row(f.sum)};
}

template <class T>
void Chain<T>::work(const Iteration& now, size_t number, Worker& worker) {
  const Chunk& chunk = grid.chunks[now.part][number];
  const int b = chunk.outer_strip, c = grid.inner_strip(b, now.part);
  const Strip<T> rows = strip(grid.outer, outer, b), columns = strip(grid.inner, inner, c);

  // The chunks of a block each collect a partial inner gradient. Sets of them are few and reused, to stay in
  // cache.
  T* set = worker.partial.data();
  int slot = 0;
  if (chunk.of > 1) {
    if (chunk.number == 0) {
      {
        std::lock_guard lock(free_mutex_);
        slot = free_.back();
        free_.pop_back();
      }
      remaining_[b].store(chunk.of, std::memory_order_relaxed);
      slot_[b].store(slot, std::memory_order_release);
    } else {
      while ((slot = slot_[b].load(std::memory_order_acquire)) < 0) std::this_thread::yield();
    }
    set = partials_[slot].data();
  }
  const int place = grid.chunk_slot[b * grid.parts + c] + chunk.number;  // among the chunks of the whole grid
  Block<T> block = grid.block(b, now.part);
  Likelihood<T> likelihood = this->likelihood;
  if (now.draws) {  // zeros among the draws are entries like the others
    const Drawing<T> drawing{likelihood.zeros,    likelihood.zero_weight,
                             now.draws[number],   static_cast<uint32_t>(place),
                             now.outer.iteration, key};
    block = langevin_kernels<T>().subsample(block, chunk.first, chunk.last, drawing, worker.scratch);
    likelihood.zeros = false;
  }
  const double squares = langevin_kernels<T>().outer_rows(
      {block, likelihood, now.pass, now.outer, rows, columns, chunk.first, chunk.last},
      set + chunk.number * partial_size_, worker.scratch);
  if (now.pass != Pass::weight) squares_[place] = squares;
  if (chunk.of > 1 && remaining_[b].fetch_sub(1, std::memory_order_acq_rel) > 1) return;

  T* partials[16];
  for (int q = 0; q < chunk.of; ++q) partials[q] = set + q * partial_size_;
  langevin_kernels<T>().inner_rows(likelihood, now.pass, now.inner, columns, partials, chunk.of,
                                   worker.scratch);
  if (now.sums) {
    take_sums(grid.outer, outer, b, now.sums);
    take_sums(grid.inner, inner, c, now.sums);
  }
  if (chunk.of > 1) {
    slot_[b].store(-1, std::memory_order_relaxed);
    std::lock_guard lock(free_mutex_);
    free_.push_back(slot);
  }
}

template <class T>
void Chain<T>::run(Pool& pool, size_t n, Range strips, const std::function<Iteration(size_t)>& iteration,
                   const AtMark& at_mark) {
  if (n == 0 || strips.first == strips.last) return;
  // A thread has at most one unfinished block in hand, and each queue one that is being handed out.
  const int threads = pool.size();
  if (grid.most_chunks > 1)
    while (partials_.size() < 2 * static_cast<size_t>(threads))
      partials_.emplace_back(partial_size_ * grid.most_chunks);
  free_.resize(partials_.size());
  std::iota(free_.begin(), free_.end(), 0);
  while (workers_.size() < static_cast<size_t>(threads))
    workers_.push_back(std::make_unique<Worker>(partial_size_));
  Iteration now = iteration(0);
  // A queue for each thread, always of the same outer strips, which so stay in its cache; who is done early
  // helps others.
  struct alignas(64) Queue {
    std::atomic<size_t> next{0};
  };
  std::vector<Queue> queues(threads);
  auto first_chunk = [&](int part, int queue) {
    return grid.first_chunk[part][strips.first + (strips.last - strips.first) * queue / threads];
  };
  auto refill = [&] {
    for (int q = 0; q < threads; ++q)
      queues[q].next.store(first_chunk(now.part, q), std::memory_order_relaxed);
  };
  refill();
  if (n > 1) grid.prefetch(iteration(1).part);
  // A thread that throws comes to the barrier like the others; the last of them ends the run for all.
  Barrier barrier(threads);
  Failure failure;
  size_t end = n;
  pool.run([&](int id) {
    Worker& worker = *workers_[id];
    for (size_t t = 0; t < end; ++t) {
      failure.guard([&] {
        for (int turn = 0; turn < threads; ++turn) {
          const int q = (id + turn) % threads;
          const size_t last = first_chunk(now.part, q + 1);
          for (size_t c; (c = queues[q].next.fetch_add(1, std::memory_order_relaxed)) < last;)
            work(now, c, worker);
        }
      });
      if (now.mark) {
        barrier.arrive([] {});
        failure.guard([&] { at_mark.together(id); });
      }
      barrier.arrive([&] {
        if (failure) return void(end = t + 1);
        if (now.mark) at_mark.alone();
        if (t + 1 < n) now = iteration(t + 1);
        if (t + 2 < n) grid.prefetch(iteration(t + 2).part);
        refill();
      });
    }
  });
  if (!failure) return;
  for (auto& slot : slot_) slot = -1;  // of blocks that were left unfinished
  failure.rethrow();
}

template <class T>
void Chain<T>::advance(Pool& pool, const Stretch& s, Range strips, const Marks<T>* marks) {
  if (momentum != 0)
    for (auto* f : {&outer, &inner})
      if (!f->momentum.data()) f->momentum = Aligned<T>(f->x.size());
  // At a mark and after the last iteration somebody will ask for the sums: they cost little while a strip is
  // in the cache.
  const int rows = std::max(*std::max_element(grid.outer.rows.begin(), grid.outer.rows.end()),
                            *std::max_element(grid.inner.rows.begin(), grid.inner.rows.end()));
  const bool all_here = strips.first == 0 && strips.last == grid.strips && !s.parts.empty();
  const bool sums = all_here && rows * inner.stride * sizeof(T) <= kInCache;
  std::vector<char> marked(s.parts.size());
  std::vector<double> totals(marks ? kernel_runs(marks->monitored) : 0);
  if (marks)
    for (int64_t after : marks->after) marked[after - 1] = true;
  auto wanted = [&](size_t q) {
    if (!sums) return 0;
    return q + 1 == s.parts.size() ? kAllSums : marked[q] ? kMarkSums : 0;
  };
  size_t mark = 0;
  const int threads = pool.size();
  const AtMark at_mark{[&](int id) {
                         if (sums)
                           share_groups(id, threads, s.parts[marks->after[mark] - 1], kMarkSums);
                         else
                           share_sums(id, threads, kMarkSums);
                         share_kernel(id, threads, marks->monitored, totals);
                         for (int which : {0, 1})
                           if (T* out = marks->room[which])
                             share_draw(id, threads, which, s.parts[marks->after[mark] - 1],
                                        out + mark * side(which).size() * marks->width, marks->width);
                       },
                       [&] {
                         if (!sums) share_groups(0, 1, 0, kMarkSums);
                         add_up_groups(marks->sums + mark * 2 * kMarkSums * components, kMarkSums);
                         marks->kernel[mark++] = std::accumulate(totals.begin(), totals.end(), 0.0);
                       }};
  changed();
  for (auto* f : {&outer, &inner}) prepare_empty(*f);
  run(
      pool, s.parts.size(), strips,
      [&](size_t q) {
        return Iteration{s.parts[q],
                         Pass::langevin,
                         rule(outer, s.t + q, s.steps[q], s.scales[q]),
                         rule(inner, s.t + q, s.steps[q], s.scales[q]),
                         s.draws.empty() ? nullptr : s.draws.data() + q * grid.widest(),
                         wanted(q),
                         marked[q] != 0};
      },
      at_mark);
  summed_ = sums;
}

template <class T>
void Chain<T>::clear_sums() {
  for (auto* f : {&outer, &inner}) {
    if (!f->sum.data()) f->sum = Aligned<T>(f->x.size());
    std::memset(f->sum.data(), 0, sizeof(T) * f->sum.size());
  }
}

template <class T>
void Chain<T>::add_sums(Pool& pool, Pass pass, int part, Range strips) {
  const Rule<T> o = rule(outer, 0, 0, 1), i = rule(inner, 0, 0, 1);
  const int first = part < 0 ? 0 : part, n = part < 0 ? grid.parts : 1;
  run(pool, n, strips, [&](size_t q) { return Iteration{first + static_cast<int>(q), pass, o, i}; });
}

template <class T>
void Chain<T>::accumulate(Pool& pool, Pass pass, int part) {
  clear_sums();
  add_sums(pool, pass, part, all());
}

template <class T>
void Chain<T>::set_bound(Pool& pool, Factor<T>& factor, std::span<const double> rate) {
  if (!factor.inverse_root.data()) factor.inverse_root = Aligned<T>(factor.x.size());
  const size_t stride = factor.stride;
  Aligned<T> prior(stride, T(1));
  for (int k = 0; k < components; ++k) prior[k] = static_cast<T>(rate[k]);
  const size_t rows = factor.x.size() / stride;
  const T* lambda = prior.data();
  pool.run([&](int id) {
    for (size_t r = rows * id / pool.size(); r < rows * (id + 1) / pool.size(); ++r) {
      const T* sum = factor.sum.data() + r * stride;
      T* out = factor.inverse_root.data() + r * stride;
      for (size_t k = 0; k < stride; ++k) out[k] = std::sqrt(phi / (sum[k] + phi * lambda[k]));
    }
  });
}

template <class T>
void Chain<T>::save() {
  for (auto* f : {&outer, &inner})
    if (!f->saved.data()) f->saved = Aligned<T>(f->x.size());
  saved_squares_ = squares_;
  for (auto* f : {&outer, &inner}) std::memcpy(f->saved.data(), f->x.data(), sizeof(T) * f->x.size());
}

template <class T>
void Chain<T>::restore() {
  for (auto* f : {&outer, &inner}) {
    std::memcpy(f->x.data(), f->saved.data(), sizeof(T) * f->x.size());
    if (f->momentum.data()) std::memset(f->momentum.data(), 0, sizeof(T) * f->x.size());
  }
  squares_ = saved_squares_;
  changed();
}

template class Chain<float>;
template class Chain<double>;

}  // namespace psgld
