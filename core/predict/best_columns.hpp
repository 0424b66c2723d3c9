// The best columns of one row by their scores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace psgld {

// Steps through the columns in order and says which may be chosen: not those seen (sorted), only those
// allowed.
class Candidates {
 public:
  Candidates(std::span<const int32_t> seen, const bool* allowed)
      : next_(seen.data()), last_(seen.data() + seen.size()), allowed_(allowed) {}
  bool has(int64_t j) {
    while (next_ != last_ && *next_ < j) ++next_;
    return (next_ == last_ || *next_ != j) && (!allowed_ || allowed_[j]);
  }

 private:
  const int32_t *next_, *last_;
  const bool* allowed_;
};

// The n best, best first: by a, then (unless null) by b, then the lower index.
template <class T>
std::vector<int64_t> best_columns(const T* a, const T* b, int64_t columns, std::span<const int32_t> seen,
                                  const bool* allowed, int64_t n) {
  auto better = [&](int64_t x, int64_t y) {
    if (a[x] != a[y]) return a[x] > a[y];
    if (b && b[x] != b[y]) return b[x] > b[y];
    return x < y;
  };
  std::vector<int64_t> heap;  // the worst of the best on top
  heap.reserve(n + 1);
  Candidates candidates(seen, allowed);
  for (int64_t j = 0; j < columns; ++j) {
    if (static_cast<int64_t>(heap.size()) == n && a[j] < a[heap.front()]) continue;  // nearly all of them
    if (!candidates.has(j)) continue;
    if (static_cast<int64_t>(heap.size()) == n) {
      if (!better(j, heap.front())) continue;
      std::pop_heap(heap.begin(), heap.end(), better);
      heap.pop_back();
    }
    heap.push_back(j);
    std::push_heap(heap.begin(), heap.end(), better);
  }
  std::sort_heap(heap.begin(), heap.end(), better);
  return heap;
}

}  // namespace psgld
