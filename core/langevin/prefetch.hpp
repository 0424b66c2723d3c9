// What will be wanted soon, asked for a few lines at a time while there is arithmetic to do. Asked for all at
// once it would hold everything up: a core waits for some sixteen lines of memory at a time, no more.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "common/kernels.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
constexpr size_t kLine = 64 / sizeof(T);

// Rows that come next, and of entries [entry, last) of a block the inner rows that they hit, with gradients.
template <class T>
struct Wanted {
  std::span<const T> rows;
  std::array<const T*, 2> also = {};  // arrays whose rows come with them: momentum, metric; or null
  const Block<T>* block = nullptr;
  const T *inner = nullptr, *gradient = nullptr;
  int stride = 0;
  uint32_t entry = 0, last = 0;

  bool empty() const { return rows.empty() && entry == last; }
};

template <class T>
class Prefetch {
 public:
  // All of it in that many turns.
  Prefetch(const Wanted<T>& wanted, uint32_t turns)
      : wanted_(wanted),
        at_(wanted.rows.data()),
        end_(at_ + wanted.rows.size()),
        lines_((wanted.rows.size() / kLine<T> + turns - 1) / turns),
        entries_((wanted.last - wanted.entry + turns - 1) / turns) {}

  void turn() {
    ask_rows(lines_);
    ask_entries(entries_);
  }
  void rest() {
    ask_rows(end_ - at_);
    ask_entries(wanted_.last);
  }

 private:
  void ask_rows(size_t lines) {
    for (; lines > 0 && at_ < end_; --lines, at_ += kLine<T>) {
      __builtin_prefetch(at_, 1);
      for (const T* array : wanted_.also)
        if (array) __builtin_prefetch(array + (at_ - wanted_.rows.data()), 1);
    }
  }
  void ask_entries(uint32_t entries) {
    for (; entries > 0 && wanted_.entry < wanted_.last; --entries, ++wanted_.entry) {
      const Block<T>& block = *wanted_.block;
      const size_t hit = block.index16 ? block.index16[wanted_.entry] : block.index32[wanted_.entry];
      for (int k = 0; k < wanted_.stride; k += kLine<T>) {  // to the second cache: the first has other work
        __builtin_prefetch(wanted_.inner + hit * wanted_.stride + k, 0, 2);
        __builtin_prefetch(wanted_.gradient + hit * wanted_.stride + k, 1, 2);
      }
    }
  }

  Wanted<T> wanted_;
  const T *at_, *end_;
  size_t lines_;
  uint32_t entries_;
};

// Elements [first, last) of an array that is read once, from one end to the other. (GCC drops calls of
// functions that do nothing but this: they must be inlined.)
template <class T>
[[gnu::always_inline]] inline void prefetch_run(const T* array, size_t first, size_t last) {
  for (size_t q = first; q < last; q += kLine<T>) __builtin_prefetch(array + q);
}

}  // namespace psgld::PSGLD_ISA
