// Absent entries that are zeros, without visiting them. With mu = w.h and the sums over a whole strip of h,
//
//   weight 1:   sum over zeros and non-zeros of h     =  sum h               (Zeros::sum, a vector)
//   weight mu:  sum over zeros and non-zeros of mu h  =  w sum h h'          (Zeros::gram, a Gram matrix)
//
// is the negative part of the score for every row w; the stored entries add the positive part.
#pragma once

#include "likelihood/registry.hpp"
#include "simd/gemm.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
inline size_t zero_size(const Likelihood<T>& likelihood, int stride) {
  if (!likelihood.zeros) return 0;
  return static_cast<size_t>(stride) * (traits(likelihood).zeros == Zeros::gram ? stride : 1);
}

template <class T>
inline void zero_add(const Likelihood<T>& likelihood, const T* x, int rows, int stride, T* total) {
  if (traits(likelihood).zeros == Zeros::gram) {
    // rows of x are padded with zeros, stride is a multiple of the tile
    gemm<true, T>({x, stride}, {x, stride}, rows, {total, stride}, stride, stride, true);
    return;
  }
  for (int k = 0; k < stride; k += kLanes<T>) {
    Vec<T> s = load(total + k);
    for (int r = 0; r < rows; ++r) s += load(x + static_cast<size_t>(r) * stride + k);
    store(total + k, s);
  }
}

// gradient += sign * (negative part) for each of the rows of x.
template <class T>
inline void zero_apply(const Likelihood<T>& likelihood, const T* x, int rows, int stride, const T* total,
                       T sign, T* gradient) {
  const int L = kLanes<T>;
  const bool gram = traits(likelihood).zeros == Zeros::gram;
  for (int r = 0; r < rows; ++r) {
    const T* w = x + static_cast<size_t>(r) * stride;
    T* g = gradient + static_cast<size_t>(r) * stride;
    if (gram) {
      for (int l = 0; l < stride; ++l) {
        const Vec<T> c = splat(sign * w[l]);
        for (int k = 0; k < stride; k += L)
          store(g + k, load(g + k) + c * load(total + static_cast<size_t>(l) * stride + k));
      }
    } else {
      for (int k = 0; k < stride; k += L) store(g + k, load(g + k) + sign * load(total + k));
    }
  }
}

}  // namespace psgld::PSGLD_ISA
