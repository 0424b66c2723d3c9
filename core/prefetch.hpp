// Rows that will be wanted soon, asked for a few lines at a time while there is arithmetic to do. Asked for
// all at once they would hold everything up: a core waits for some sixteen lines of memory at a time, no
// more.
#pragma once

#include <cstddef>
#include <span>

namespace psgld::PSGLD_ISA {

template <class T>
class Prefetch {
 public:
  // All of them in that many turns.
  Prefetch(std::span<const T> wanted, int turns)
      : at_(wanted.data()), end_(at_ + wanted.size()), lines_((wanted.size() / kLine + turns - 1) / turns) {}

  void turn() { ask(lines_); }
  void rest() { ask((end_ - at_) / kLine); }

 private:
  static constexpr size_t kLine = 64 / sizeof(T);

  void ask(size_t lines) {
    for (; lines > 0 && at_ < end_; --lines, at_ += kLine) __builtin_prefetch(at_, 1);
  }

  const T *at_, *end_;
  size_t lines_;
};

}  // namespace psgld::PSGLD_ISA
