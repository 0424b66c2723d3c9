// Gram matrices of rows of a factor.
#pragma once

#include <cstring>

#include "common/kernels.hpp"
#include "langevin/scratch.hpp"
#include "simd/gemm.hpp"

namespace psgld::PSGLD_ISA {

// C += A'A on and above the diagonal, A (n x stride); what falls below it, in vectors that cross it, is
// unused.
template <class T>
inline void add_gram(const T* a, int n, int stride, T* c) {
  for (int r = 0; r < stride; r += kTileRows) {
    const int j = r / kLanes<T> * kLanes<T>;
    gemm<true, T>({a + r, stride}, {a + j, stride}, n, {c + static_cast<size_t>(r) * stride + j, stride},
                  kTileRows, stride - j, true);
  }
}

template <class T>
void gram(const T* x, int64_t rows, int64_t x_stride, int components, double* sum, Scratch* opaque) {
  auto* scratch = reinterpret_cast<ThreadScratch*>(opaque);
  const int stride = whole_stride(components);
  T* panel = scratch->panel.get<T>(static_cast<size_t>(kBatch) * stride);
  T* m = scratch->matrix.get<T>(static_cast<size_t>(stride) * stride);
  for (int64_t r = 0; r < rows; r += kBatch) {
    const int n = rows - r < kBatch ? static_cast<int>(rows - r) : kBatch;
    std::memset(panel, 0, sizeof(T) * n * stride);
    std::memset(m, 0, sizeof(T) * stride * stride);
    for (int q = 0; q < n; ++q)
      std::memcpy(panel + q * stride, x + (r + q) * x_stride, sizeof(T) * components);
    add_gram(panel, n, stride, m);
    for (int k = 0; k < components; ++k)
      for (int l = k; l < components; ++l) {
        const double s = m[static_cast<size_t>(k) * stride + l];
        sum[k * static_cast<size_t>(components) + l] += s;
        if (l > k) sum[l * static_cast<size_t>(components) + k] += s;
      }
  }
}

}  // namespace psgld::PSGLD_ISA
