// A stream of random numbers that is a function of (key, a, b, c) and of nothing else: Philox4x32-10 with the
// counter (n, a, b, c), n = 0, 1, 2, …. A new observation has one stream for each (row, column, draw), so it
// does not depend on who draws it, nor on what is drawn beside it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace psgld {

// Layers of equal area under exp(-x^2 / 2), x > 0: layer i reaches from 0 to x[i], and from f[i] up to f[i +
// 1]. The lowest one holds the tail too, and x[0] is what its width would be without.
struct Ziggurat {
  static constexpr int kLayers = 128;
  static constexpr double kEdge = 3.442619855899, kArea = 9.91256303526217e-3;
  double x[kLayers + 1], f[kLayers + 1];
  Ziggurat() {
    auto density = [](double at) { return std::exp(-0.5 * at * at); };
    x[0] = kArea / density(kEdge), x[1] = kEdge, x[kLayers] = 0.0;
    for (int i = 2; i < kLayers; ++i) x[i] = std::sqrt(-2.0 * std::log(kArea / x[i - 1] + density(x[i - 1])));
    for (int i = 0; i <= kLayers; ++i) f[i] = density(x[i]);
  }
};
inline const Ziggurat ziggurat;

class Stream {
 public:
  static constexpr int kBegun = 8;

  Stream(uint64_t key, uint32_t a, uint32_t b, uint32_t c) : key_(key), a_(a), b_(b), c_(c) {}

  // The same stream, whose first words (a multiple of four, at most kBegun) stand `stride` apart.
  Stream(uint64_t key, uint32_t a, uint32_t b, uint32_t c, const uint32_t* begun, int number, int stride)
      : Stream(key, a, b, c) {
    for (int w = 0; w < number; ++w) words_[w] = begun[w * stride];
    n_ = static_cast<uint32_t>(number) / 4;
    at_ = 0, end_ = number;
  }

  double uniform() {  // in (0, 1), 53 bits
    const uint64_t high = word() >> 5, low = word() >> 6;
    return (static_cast<double>((high << 26) | low) + 0.5) * 0x1p-53;
  }

  double exponential() { return -std::log(uniform()); }

  double normal() {  // Marsaglia & Tsang's ziggurat (2000), the layer from other bits than the place in it
    for (;;) {
      const uint64_t bits = static_cast<uint64_t>(word()) << 32 | word();
      const int layer = static_cast<int>(bits & (Ziggurat::kLayers - 1));
      const double u = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-52 - 1.0, x = u * ziggurat.x[layer];
      if (std::abs(x) < ziggurat.x[layer + 1]) return x;
      if (layer == 0) return u < 0.0 ? -tail() : tail();
      const double f = ziggurat.f[layer], above = ziggurat.f[layer + 1];
      if (f + uniform() * (above - f) < std::exp(-0.5 * x * x)) return x;
    }
  }

  double gamma(double shape) {  // Marsaglia & Tsang (2000), scale 1
    if (!(shape > 0.0)) return std::numeric_limits<double>::quiet_NaN();
    if (shape < 1.0) {
      const double boost = std::pow(uniform(), 1.0 / shape);
      return gamma(shape + 1.0) * boost;
    }
    const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
    for (;;) {
      const double x = normal(), root = 1.0 + c * x;
      if (root <= 0.0) continue;
      const double v = root * root * root, u = uniform();
      if (u < 1.0 - 0.0331 * x * x * x * x) return d * v;
      if (std::log(u) < 0.5 * x * x + d * (1.0 - v + std::log(v))) return d * v;
    }
  }

  double poisson(double mean) {
    if (!(mean >= 0.0)) return std::numeric_limits<double>::quiet_NaN();
    if (mean < 10.0) {  // inversion: take e^-mean mean^n / n! off a uniform until nothing is left
      double left = uniform(), p = std::exp(-mean), n = 0.0;
      while (left > p && n < 200.0) {  // the sum of all p may miss 1 by its last digit
        left -= p;
        p *= mean / ++n;
      }
      return n;
    }
    if (mean > 1e15) return std::round(mean + std::sqrt(mean) * normal());  // doubles resolve no better
    // Hörmann's transformed rejection (PTRS, 1993).
    const double root = std::sqrt(mean), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2.0);
    const double log_mean = std::log(mean);
    for (;;) {
      const double u = uniform() - 0.5, v = uniform(), us = 0.5 - std::abs(u);
      const double n = std::floor((2.0 * a / us + b) * u + mean + 0.43);
      if (us >= 0.07 && v <= vr) return n;
      if (n < 0.0 || (us < 0.013 && v > us)) continue;
      if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= n * log_mean - mean - log_factorial(n))
        return n;
    }
  }

  double inverse_gaussian(double mean, double shape) {  // Michael, Schucany & Haas (1976)
    const double z = normal(), y = mean * z * z / (2.0 * shape);
    // mean (1 + y - sqrt(y^2 + 2y)), written so that a large y does not cancel.
    const double x = mean / (1.0 + y + std::sqrt(y * (y + 2.0)));
    return uniform() * (mean + x) <= mean ? x : mean * (mean / x);
  }

 private:
  double tail() {  // beyond the first layer (Marsaglia 1964)
    for (;;) {
      const double x = exponential() / Ziggurat::kEdge, y = exponential();
      if (2.0 * y > x * x) return Ziggurat::kEdge + x;
    }
  }

  // lgamma sets a global sign; Stirling's series is at 1e-10 from n = 10 on, and below it a product will do.
  static double log_factorial(double n) {
    if (n < 10.0) {
      double product = 1.0;
      for (double k = 2.0; k <= n; ++k) product *= k;
      return std::log(product);
    }
    const double r = 1.0 / n, r2 = r * r;
    return (n + 0.5) * std::log(n) - n + 0.91893853320467274 +
           r * (1.0 / 12.0 - r2 * (1.0 / 360.0 - r2 / 1260.0));
  }

  uint32_t word() {
    if (at_ == end_) {
      refill();
      at_ = 0, end_ = 4;
    }
    return words_[at_++];
  }

  void refill() {
    uint32_t x0 = n_++, x1 = a_, x2 = b_, x3 = c_;
    uint32_t k0 = static_cast<uint32_t>(key_), k1 = static_cast<uint32_t>(key_ >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const uint64_t p = 0xD2511F53ull * x0, q = 0xCD9E8D57ull * x2;
      x0 = static_cast<uint32_t>(q >> 32) ^ x1 ^ k0;
      x1 = static_cast<uint32_t>(q);
      x2 = static_cast<uint32_t>(p >> 32) ^ x3 ^ k1;
      x3 = static_cast<uint32_t>(p);
    }
    words_[0] = x0, words_[1] = x1, words_[2] = x2, words_[3] = x3;
  }

  const uint64_t key_;
  const uint32_t a_, b_, c_;
  uint32_t n_ = 0, words_[kBegun];
  int at_ = 0, end_ = 0;
};

}  // namespace psgld
