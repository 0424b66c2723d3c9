// ARS-7 (Salmon et al. 2011): four words from a counter of four and a key, by seven rounds of AES whose keys
// are an arithmetic sequence. Processors have an instruction for a round, so it is faster than Philox.
// Those with VAES do as many blocks at once as a vector holds.
#pragma once

#include <array>
#include <bit>
#include <cstdlib>
#include <string_view>

#include "simd/aes.hpp"

namespace psgld::PSGLD_ISA {

// The key of each round in every block of a vector.
struct ArsKeys {
  static constexpr int kRounds = 7;
  VecU round[kRounds + 1];
  explicit ArsKeys(uint64_t key) {
    VecU64 now{}, more{};
    for (int l = 0; l < kLanes<uint64_t>; l += 2) {
      now[l] = key;
      more[l] = 0x9E3779B97F4A7C15u, more[l + 1] = 0xBB67AE8584CAA73Bu;
    }
    for (auto& k : round) {
      k = (VecU)now;
      now += more;
    }
  }
};

// All rounds but the first addition of a key, on n vectors of blocks; n is a multiple of four.
using ArsRounds = void (*)(VecU* x, int n, const ArsKeys& keys);

// SubBytes: the inverse in GF(2^8), found along the powers of 3, and an affine map.
constexpr std::array<uint8_t, 256> aes_box() {
  std::array<uint8_t, 256> box{};
  uint8_t p = 1, q = 1;  // p q = 1
  do {
    p = static_cast<uint8_t>(p ^ (p << 1) ^ (p & 0x80 ? 0x1b : 0));
    q = static_cast<uint8_t>(q ^ (q << 1));
    q = static_cast<uint8_t>(q ^ (q << 2));
    q = static_cast<uint8_t>(q ^ (q << 4));
    if (q & 0x80) q ^= 0x09;
    unsigned turned = q * 0x101u;  // q twice, so that shifts rotate
    box[p] = static_cast<uint8_t>(q ^ (turned >> 7) ^ (turned >> 6) ^ (turned >> 5) ^ (turned >> 4) ^ 0x63);
  } while (p != 1);
  box[0] = 0x63;
  return box;
}

// What a byte of a word adds to its column: itself after SubBytes, times 2, 1, 1 and 3 from the lowest row
// up.
constexpr std::array<uint32_t, 256> aes_columns() {
  std::array<uint32_t, 256> columns{};
  const auto box = aes_box();
  for (int b = 0; b < 256; ++b) {
    const uint32_t s = box[b], twice = (s << 1 ^ (s >> 7) * 0x11b) & 0xff;
    columns[b] = twice | s << 8 | s << 16 | (s ^ twice) << 24;
  }
  return columns;
}

inline void ars_plain(VecU* x, int n, const ArsKeys& keys) {
  static constexpr auto columns = aes_columns();
  for (int block = 0; block < n * kLanes<uint32_t> / 4; ++block) {
    uint32_t word[4], out[4];
    std::memcpy(word, reinterpret_cast<char*>(x) + sizeof word * block, sizeof word);
    for (int round = 1; round <= ArsKeys::kRounds; ++round) {
      for (int c = 0; c < 4; ++c) {
        auto column = [&](int r) { return columns[word[(c + r) % 4] >> 8 * r & 0xff]; };
        auto byte = [&](int r) { return (column(r) >> 8 & 0xff) << 8 * r; };
        const uint32_t mixed =
            round == ArsKeys::kRounds
                ? byte(0) | byte(1) | byte(2) | byte(3)
                : column(0) ^ std::rotl(column(1), 8) ^ std::rotl(column(2), 16) ^ std::rotl(column(3), 24);
        out[c] = mixed ^ keys.round[round][c];
      }
      std::memcpy(word, out, sizeof word);
    }
    std::memcpy(reinterpret_cast<char*>(x) + sizeof word * block, word, sizeof word);
  }
}

// The fastest of them here; PSGLD_AES=aes or plain asks for less, for tests. All give the same words.
inline ArsRounds ars_rounds() {
  const char* wish = std::getenv("PSGLD_AES");
  const std::string_view most = wish && *wish ? wish : "vaes";
  constexpr int rounds = ArsKeys::kRounds;
#if defined(PSGLD_HAS_VAES)
  if (has_vaes() && most == "vaes")
    return [](VecU* x, int n, const ArsKeys& keys) { vaes_rounds<rounds>(x, n, keys.round); };
#endif
#if defined(PSGLD_HAS_AES)
  if (has_aes() && most != "plain")
    return [](VecU* x, int n, const ArsKeys& keys) { aes_rounds<rounds>(x, n, keys.round); };
#endif
  return ars_plain;
}

}  // namespace psgld::PSGLD_ISA
