// The part of a prior's score that couples the components of a row: rows x ~ N(m, Lambda^-1) have the score
//
//   Lambda m - Lambda x = linear - quadratic x - (Lambda without its diagonal) x
//
// of which step.hpp takes the first two terms. The third is a small product, added to the gradient
// beforehand.
#pragma once

#include "common/kernels.hpp"
#include "langevin/scratch.hpp"
#include "simd/gemm.hpp"

namespace psgld::PSGLD_ISA {

// The matrix to multiply rows by, or none. The step scales the gradient by s / phi; the prior takes no part
// in that.
template <class T>
inline const T* scaled_coupling(const Rule<T>& rule, ThreadScratch* scratch) {
  if (!rule.coupling) return nullptr;
  const size_t size = static_cast<size_t>(rule.stride) * whole_stride(rule.components);
  T* out = scratch->coupling.get<T>(size);
  const T factor = -1 / rule.scale;
  for (size_t q = 0; q < size; q += kLanes<T>) store(out + q, factor * load(rule.coupling + q));
  return out;
}

// gradient += x matrix for whole tiles of rows.
template <class T>
inline void couple(const T* matrix, const Rule<T>& rule, const T* x, int rows, T* gradient,
                   ThreadScratch* scratch) {
  const int stride = rule.stride, whole = whole_stride(rule.components);
  if (stride == whole) {
    gemm<false, T>({x, stride}, {matrix, whole}, stride, {gradient, stride}, rows, whole, true);
    return;
  }
  T* product = scratch->panel.get<T>(static_cast<size_t>(kRowTile) * whole);
  for (int r = 0; r < rows; r += kRowTile, x += kRowTile * stride) {
    gemm<false, T>({x, stride}, {matrix, whole}, stride, {product, whole}, kRowTile, whole, false);
    for (int i = 0; i < kRowTile; ++i, gradient += stride)
      for (int k = 0; k < stride; ++k) gradient[k] += product[i * whole + k];
  }
}

}  // namespace psgld::PSGLD_ISA
