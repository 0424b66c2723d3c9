// Rows of a Gaussian model given the other factor, drawn exactly (Salakhutdinov and Mnih 2008):
//
//   x_i ~ N(P^-1 b, P^-1),   P = Lambda + sum_j y_j y_j' / phi,   b = Lambda m + sum_j v_ij y_j / phi
//
// With phi P = U'U:  x_i = U^-1 (U'^-1 phi b + sqrt(phi) z). Most of the time goes to the sum of y_j y_j':
// the y_j of a row are packed side by side, a batch at a time, and multiplied in tiles of registers.
#pragma once

#include <cmath>
#include <cstring>

#include "bpmf/kernels.hpp"
#include "langevin/gram.hpp"
#include "langevin/scratch.hpp"
#include "random/noise.hpp"
#include "simd/gemm.hpp"

namespace psgld::PSGLD_ISA {

// The y_j of n entries, side by side.
template <class T>
inline void pack(const T* other, const int32_t* index, int n, int stride, T* panel) {
  constexpr int kAhead = 8;
  for (int q = 0; q < n; ++q) {
    if (q + kAhead < n) {
      const T* next = other + static_cast<size_t>(index[q + kAhead]) * stride;
      for (int k = 0; k < stride; k += 64 / static_cast<int>(sizeof(T))) __builtin_prefetch(next + k);
    }
    const T* y = other + static_cast<size_t>(index[q]) * stride;
    for (int k = 0; k < stride; k += kLanes<T>) store(panel + q * stride + k, load(y + k));
  }
}

// The rows of A times weights, in `out`.
template <class T>
inline void scale_rows(const T* a, const T* weight, T less, int n, int stride, T* out) {
  for (int q = 0; q < n; ++q)
    for (int k = 0; k < stride; k += kLanes<T>)
      store(out + q * stride + k, (weight[q] - less) * load(a + q * stride + k));
}

// b += A'v, A (n x stride): four rows at a time, to load and store b less often.
template <class T>
inline void add_product(const T* a, const T* v, int n, int stride, T* b) {
  for (int k = 0; k < stride; k += kLanes<T>) {
    Vec<T> s[2] = {load(b + k), Vec<T>{}};
    int q = 0;
    for (; q + 2 <= n; q += 2)
#pragma GCC unroll 2
      for (int l = 0; l < 2; ++l) s[l] += v[q + l] * load(a + (q + l) * stride + k);
    if (q < n) s[0] += v[q] * load(a + q * stride + k);
    store(b + k, s[0] + s[1]);
  }
}

// m = U'U, in place on and above the diagonal, and y = U'^-1 b; b is lost. False if m has no such factor.
template <class T>
inline bool factor_and_solve(T* m, int components, int stride, T* b, T* inverse, T* y) {
  constexpr int L = kLanes<T>, kWidth = 4;
  for (int k = 0; k < components; ++k) {
    T* row = m + static_cast<size_t>(k) * stride;
    const int from = k / L * L;
    auto eliminate = [&]<int N>(int j) {
      Vec<T> even[N], odd[N];
      for (int c = 0; c < N; ++c) even[c] = load(row + j + c * L), odd[c] = Vec<T>{};
      int i = 0;
      for (; i + 2 <= k; i += 2) {
        const T *p = m + static_cast<size_t>(i) * stride, *q = p + stride;
        for (int c = 0; c < N; ++c) {
          even[c] -= p[k] * load(p + j + c * L);
          odd[c] -= q[k] * load(q + j + c * L);
        }
      }
      if (i < k) {
        const T* p = m + static_cast<size_t>(i) * stride;
        for (int c = 0; c < N; ++c) even[c] -= p[k] * load(p + j + c * L);
      }
      for (int c = 0; c < N; ++c) store(row + j + c * L, even[c] + odd[c]);
    };
    int j = from;
    for (; j + kWidth * L <= stride; j += kWidth * L) eliminate.template operator()<kWidth>(j);
    switch ((stride - j) / L) {
      case 3:
        eliminate.template operator()<3>(j);
        break;
      case 2:
        eliminate.template operator()<2>(j);
        break;
      case 1:
        eliminate.template operator()<1>(j);
        break;
    }
    const T pivot = row[k];
    if (!(pivot > 0)) return false;
    inverse[k] = 1 / std::sqrt(pivot);
    y[k] = b[k] * inverse[k];
    for (j = from; j < stride; j += L) {
      const Vec<T> u = inverse[k] * load(row + j);
      store(row + j, u);
      store(b + j, load(b + j) - y[k] * u);
    }
  }
  return true;
}

// x = U^-1 y; x starts as zeros.
template <class T>
inline void solve_upper(const T* u, const T* inverse, const T* y, int components, int stride, T* x) {
  constexpr int L = kLanes<T>;
  for (int k = components - 1; k >= 0; --k) {
    const T* row = u + static_cast<size_t>(k) * stride;
    Vec<T> s{};
    for (int j = k / L * L; j < stride; j += L) s += load(row + j) * load(x + j);
    x[k] = (y[k] - hsum<T>(s)) * inverse[k];
  }
}

template <class T>
int normal_rows(const NormalRows<T>& job, int64_t first, int64_t last, Scratch* opaque) {
  auto* scratch = reinterpret_cast<ThreadScratch*>(opaque);
  const int K = job.components, stride = whole_stride(K), quartets = (K + 3) / 4;
  const size_t square = static_cast<size_t>(stride) * stride;
  T* prior = scratch->matrix.get<T>(2 * square + 6 * static_cast<size_t>(stride));
  T *m = prior + square, *linear = m + square, *b = linear + stride, *y = b + stride, *x = y + stride,
    *inverse = x + stride;
  T* panel = scratch->panel.get<T>(static_cast<size_t>(2 * kBatch) * stride);
  T* scaled = panel + static_cast<size_t>(kBatch) * stride;
  std::memset(prior, 0, sizeof(T) * square);
  std::memset(linear, 0, sizeof(T) * stride);
  for (int k = 0; k < K; ++k) {
    linear[k] = static_cast<T>(job.phi * job.linear[k]);
    for (int l = 0; l < K; ++l)
      prior[k * static_cast<size_t>(stride) + l] = static_cast<T>(job.phi * job.precision[k * K + l]);
  }

  scratch->pattern.prepare(quartets);
  float* noise = scratch->noise.get<float>(static_cast<size_t>(kRowTile) * 4 * quartets);
  const ArsKeys keys(job.key);
  uint32_t ids[kRowTile];
  for (int r = 0; r < kRowTile; ++r) ids[r] = static_cast<uint32_t>(first + r);
  for (int r = 0; r < last - first; r += kNoiseRows)
    noise_rows(scratch->pattern, ids + r, job.tag, job.iteration, keys, noise + 4 * quartets * r);

  const T spread = static_cast<T>(std::sqrt(job.phi));
  int failures = 0;
  for (int64_t i = first; i < last; ++i) {
    std::memcpy(m, prior, sizeof(T) * square);
    std::memcpy(b, linear, sizeof(T) * stride);
    for (int64_t q = job.start[i]; q < job.start[i + 1]; q += kBatch) {
      const int n = job.start[i + 1] - q < kBatch ? static_cast<int>(job.start[i + 1] - q) : kBatch;
      pack(job.other, job.index + q, n, stride, panel);
      if (job.weight) {
        const T* weight = job.weight + q;
        scale_rows(panel, weight, job.zero_weight, n, stride, scaled);
        gemm<true, T>({scaled, stride}, {panel, stride}, n, {m, stride}, stride, stride, true);
        scale_rows(panel, weight, T(0), n, stride, scaled);
        add_product(scaled, job.value + q, n, stride, b);
        continue;
      }
      if (!job.shared) add_gram(panel, n, stride, m);
      add_product(panel, job.value + q, n, stride, b);
    }
    // A component f that does not move: given x_f, the others see b - P_f x_f, and f itself is settled.
    T* out = job.x + i * K;
    for (int f = 0; f < K; ++f) {
      if (job.move[f] != 0) continue;
      for (int k = 0; k < K; ++k) {
        T& p = k < f ? m[k * static_cast<size_t>(stride) + f] : m[f * static_cast<size_t>(stride) + k];
        b[k] -= p * out[f];
        p = k == f ? T(1) : T(0);
      }
      b[f] = out[f];
    }
    if (!factor_and_solve(m, K, stride, b, inverse, y)) {
      ++failures;
      continue;
    }
    const float* z = noise + 4 * quartets * (i - first);
    for (int k = 0; k < K; ++k)
      if (job.move[k] != 0) y[k] += spread * static_cast<T>(z[k]);
    std::memset(x, 0, sizeof(T) * stride);
    solve_upper(m, inverse, y, K, stride, x);
    std::memcpy(out, x, sizeof(T) * K);
  }
  return failures;
}

template <class T>
double residuals(const NormalRows<T>& job, bool zeros, int64_t first, int64_t last, Scratch* opaque) {
  constexpr int L = kLanes<T>;
  auto* scratch = reinterpret_cast<ThreadScratch*>(opaque);
  const int stride = whole_stride(job.components);
  T* panel = scratch->panel.get<T>(static_cast<size_t>(kBatch) * stride);
  T* x = scratch->matrix.get<T>(stride);
  std::memset(x, 0, sizeof(T) * stride);
  double total = 0;
  for (int64_t i = first; i < last; ++i) {
    std::memcpy(x, job.x + i * job.components, sizeof(T) * job.components);
    for (int64_t q = job.start[i]; q < job.start[i + 1]; q += L) {
      const int n = job.start[i + 1] - q < L ? static_cast<int>(job.start[i + 1] - q) : L;
      pack(job.other, job.index + q, n, stride, panel);
      Vec<T> dots[L], v{};
      for (int l = 0; l < L; ++l) {
        dots[l] = Vec<T>{};
        if (l < n)
          for (int k = 0; k < stride; k += L) dots[l] += load(panel + l * stride + k) * load(x + k);
      }
      const Vec<T> mu = horizontal_sums<T>(dots);
      std::memcpy(&v, job.value + q, sizeof(T) * n);
      const Vec<T> e = v - mu;  // 0 past the last entry
      if (job.weight) {
        Vec<T> c{};
        std::memcpy(&c, job.weight + q, sizeof(T) * n);
        total += hsum<T>(c * (e * e) - job.zero_weight * (mu * mu));  // mu is 0 past the last entry
        continue;
      }
      total += hsum<T>(zeros ? v * (v - T(2) * mu) : e * e);
    }
  }
  return total;
}

}  // namespace psgld::PSGLD_ISA
