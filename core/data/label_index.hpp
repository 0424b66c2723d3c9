// Integer labels to 0, 1, 2, ... in the order of their first appearance, batch by batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

namespace psgld {

// A table of open addressing that holds the codes only: 4 bytes a slot beside the 8 of each label. Small
// numbers, which most labels are, are looked up in a plain table: several times faster than to hash them.
class LabelIndex {
 public:
  const std::vector<std::int64_t>& labels() const { return labels_; }

  void encode(std::span<const std::int64_t> labels, std::int32_t* codes) {
    for (std::size_t n = 0; n < labels.size(); ++n)
      codes[n] = n > 0 && labels[n] == labels[n - 1] ? codes[n - 1] : code(labels[n]);
  }

 private:
  static constexpr std::int32_t empty = -1;
  static constexpr std::uint64_t small = 1u << 22;

  std::int32_t code(std::int64_t label) {
    const auto at = static_cast<std::uint64_t>(label);
    if (at >= small) return hashed_code(label);
    if (at >= plain_.size()) plain_.resize(std::min(small, 2 * at + 1024), empty);
    if (plain_[at] == empty) plain_[at] = hashed_code(label);
    return plain_[at];
  }

  std::int32_t hashed_code(std::int64_t label) {
    std::size_t at = hash(label) & mask_;
    for (; slots_[at] != empty; at = (at + 1) & mask_)
      if (labels_[slots_[at]] == label) return slots_[at];
    if (labels_.size() == std::numeric_limits<std::int32_t>::max())
      throw std::length_error("more than 2^31 - 1 labels");
    slots_[at] = static_cast<std::int32_t>(labels_.size());
    labels_.push_back(label);
    if (2 * labels_.size() > slots_.size()) grow();
    return static_cast<std::int32_t>(labels_.size() - 1);
  }

  void grow() {
    slots_.assign(2 * slots_.size(), empty);
    mask_ = slots_.size() - 1;
    for (std::size_t n = 0; n < labels_.size(); ++n) {
      std::size_t at = hash(labels_[n]) & mask_;
      while (slots_[at] != empty) at = (at + 1) & mask_;
      slots_[at] = static_cast<std::int32_t>(n);
    }
  }

  // The finaliser of SplitMix64: labels that differ in few bits land far apart.
  static std::uint64_t hash(std::int64_t label) {
    auto x = static_cast<std::uint64_t>(label);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  std::vector<std::int64_t> labels_;
  std::vector<std::int32_t> plain_;
  std::vector<std::int32_t> slots_ = std::vector<std::int32_t>(1024, empty);
  std::size_t mask_ = 1023;
};

}  // namespace psgld
