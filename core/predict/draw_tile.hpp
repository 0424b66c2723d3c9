// The samplers of scalar_stream.hpp at kTilePairs pairs side by side, as far as their first try goes: from
// the words that the streams begin with come the same numbers. The few pairs whose first try is not taken at
// a glance are left to the stream itself.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/kernels.hpp"
#include "likelihood/registry.hpp"
#include "predict/kernels.hpp"
#include "simd/lanes.hpp"
#include "simd/simd.hpp"

namespace psgld::PSGLD_ISA {

using Words = const uint32_t (*)[kTilePairs];        // word w of pair q at [w][q]
constexpr int kParts = kTilePairs / kLanes<double>;  // vectors in a tile

struct Try {
  VecD value;
  Flags taken;
};

inline VecD vfloor(VecD x) {
  for (int l = 0; l < kLanes<double>; ++l) x[l] = std::floor(x[l]);
  return x;
}

// e^-x for 0 <= x < 700: 2^-k e^r, |r| <= ln 2 / 2, by Taylor's series.
inline VecD exp_minus(VecD x) {
  const VecD shifter = splat(0x1.8p52), scaled = x * -1.4426950408889634 + shifter, k = scaled - shifter;
  const VecD r = (-x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
  VecD p = splat(1.0 / 6227020800.0);
  constexpr double kFactorials[] = {479001600, 39916800, 3628800, 362880, 40320, 5040, 720,
                                    120,       24,       6,       2,      1,     1};
#pragma GCC unroll 13
  for (double f : kFactorials) p = p * r + 1.0 / f;
  return (VecD)((Flags)p + ((Flags)scaled << 52));  // the last bits of `scaled` are k
}

inline Half half(const uint32_t* at) {
  Half out;
  std::memcpy(&out, at, sizeof out);
  return out;
}
inline VecD to_double(Half word) { return __builtin_convertvector(word, VecD); }

inline VecD uniform(Words words, int q) {
  const VecD high = to_double(half(words[0] + q) >> 5), low = to_double(half(words[1] + q) >> 6);
  return (high * 0x1p26 + low + 0.5) * 0x1p-53;
}

inline Try normal(Words words, int q, const double* ziggurat) {
  const Half high = half(words[0] + q), low = half(words[1] + q);
  const VecD u = (to_double(high) * 0x1p21 + to_double(low >> 11) + 0.5) * 0x1p-52 - 1.0;
  const VecD x = u * look_up(ziggurat, low & 127);
  return {x, vabs(x) < look_up(ziggurat + 1, low & 127)};
}

inline Try gamma(VecD shape, Words words, int q, const double* ziggurat) {
  const Try z = normal(words, q, ziggurat);
  const VecD x = z.value, d = shape - 1.0 / 3.0, root = 1.0 + x / vsqrt<double>(9.0 * d);
  const VecD v = root * root * root, u = uniform(words + 2, q);
  const Flags able = z.taken & (shape >= 1.0) & (root > 0.0);
  Flags taken = able & (u < 1.0 - 0.0331 * x * x * x * x);
  for (uint32_t unsure = bits(able & ~taken); unsure; unsure &= unsure - 1) {
    const int l = std::countr_zero(unsure);
    if (std::log(u[l]) < 0.5 * x[l] * x[l] + d[l] * (1.0 - v[l] + std::log(v[l]))) taken[l] = -1;
  }
  return {d * v, taken};
}

// Numbers with means below 10 by inversion, in all lanes until the last is done.
inline void small_poisson(const VecD* mean, Words words, Try* out) {
  VecD left[kParts], p[kParts];
  for (int part = 0; part < kParts; ++part) {
    out[part] = {VecD{}, mean[part] < 10.0};
    left[part] = out[part].taken ? uniform(words, part * kLanes<double>) : VecD{};
    p[part] = exp_minus(out[part].taken ? mean[part] : VecD{});
  }
  for (double n = 1.0; n <= 200.0; ++n) {
    Flags more{};
#pragma GCC unroll 8
    for (int part = 0; part < kParts; ++part) {  // a lane that is done stays so: nothing is left in it
      const Flags above = left[part] > p[part];
      out[part].value += above ? splat(1.0) : VecD{};
      left[part] -= p[part];
      p[part] *= mean[part] * (1.0 / n);
      more |= above;
    }
    if (!bits(more)) return;
  }
}

// Those of the others that lie where the density is nearly that of the proposal.
inline Try large_poisson(VecD mean, Words words, int q) {
  const VecD b = 0.931 + 2.53 * vsqrt<double>(mean), a = -0.059 + 0.02483 * b,
             vr = 0.9277 - 3.6224 / (b - 2.0);
  const VecD u = uniform(words, q) - 0.5, v = uniform(words + 2, q), us = 0.5 - vabs(u);
  return {vfloor((2.0 * a / us + b) * u + mean + 0.43),
          (mean >= 10.0) & (mean <= 1e15) & (us >= 0.07) & (v <= vr)};
}

inline void poisson(const VecD* mean, Words words, Try* out) {
  small_poisson(mean, words, out);
  for (int part = 0; part < kParts; ++part)
    if (bits(~out[part].taken)) {
      const Try large = large_poisson(mean[part], words, part * kLanes<double>);
      out[part] = {large.taken ? large.value : out[part].value, out[part].taken | large.taken};
    }
}

// What the numbers leave of the words: a small one has used two of them, a large one four.
inline Words words_left(const VecD* mean, Words words, uint32_t (*mixed)[kTilePairs]) {
  constexpr int L = kLanes<double>;
  Flags large{};
  for (int part = 0; part < kParts; ++part) large |= mean[part] >= 10.0;
  if (!bits(large)) return words + 2;
  for (int q = 0; q < kTilePairs; ++q)
    for (int w = 0; w < 4; ++w) mixed[w][q] = words[w + (mean[q / L][q % L] >= 10.0 ? 4 : 2)][q];
  return mixed;
}

inline VecD power(VecD mu, double p) {
  if (p == 0.5) return vsqrt<double>(mu);
  for (int l = 0; l < kLanes<double>; ++l) mu[l] = std::pow(mu[l], p);
  return mu;
}

inline void compound_poisson(const VecD* mu, double phi, double beta, Words words, const double* ziggurat,
                             Try* out) {
  VecD root[kParts], mean[kParts];
  for (int part = 0; part < kParts; ++part) {
    root[part] = power(mu[part], beta);
    mean[part] = root[part] * (1.0 / (phi * beta));
  }
  poisson(mean, words, out);
  alignas(64) uint32_t mixed[4][kTilePairs];
  const Words rest = words_left(mean, words, mixed);
  for (int part = 0; part < kParts; ++part) {
    const VecD number = out[part].value;
    const Flags none = number == 0.0;
    const Try size = gamma(number * (beta / (1.0 - beta)), rest, part * kLanes<double>, ziggurat);
    out[part].value = none ? VecD{} : size.value * (phi * (1.0 - beta)) * mu[part] / root[part];
    out[part].taken &= none | size.taken;
  }
}

// The means of a tile and its first tries, as a family sees them.
struct DrawTile {
  VecD mu[kParts];
  Try out[kParts];
  const Words words;
  const double* ziggurat;

  void poisson() { PSGLD_ISA::poisson(mu, words, out); }
  void gamma(double shape) {
    for (int part = 0; part < kParts; ++part)
      out[part] = PSGLD_ISA::gamma(splat(shape), words, part * kLanes<double>, ziggurat);
  }
  void compound_poisson(double phi, double beta) {
    PSGLD_ISA::compound_poisson(mu, phi, beta, words, ziggurat, out);
  }
};

// x, means above 0, become new observations; returns a bit for each pair that stayed what it was.
inline uint32_t first_try(const Likelihood<double>& likelihood, double phi, Words words,
                          const double* ziggurat, double* x) {
  constexpr int L = kLanes<double>;
  DrawTile tile{{}, {}, words, ziggurat};
  for (int part = 0; part < kParts; ++part) tile.mu[part] = load(x + part * L);
  with_family(likelihood, [&](auto family) {
    if constexpr (decltype(family)::kTries) family.first_try(tile, phi);
  });
  uint32_t left = 0;
  for (int part = 0; part < kParts; ++part) {
    store(x + part * L, tile.out[part].taken ? tile.out[part].value : load(x + part * L));
    left |= bits(~tile.out[part].taken) << (part * L);
  }
  return left;
}

}  // namespace psgld::PSGLD_ISA
