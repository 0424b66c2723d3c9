// Arrays as Python hands them to the core: exactly typed, contiguous, in main memory. And back.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/checks.hpp"

namespace psgld {

template <class T, int N = 1>
using In = nanobind::ndarray<const T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;
template <class T, int N = 1>
using Out = nanobind::ndarray<T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;

template <class T>
std::span<const T> span(const In<T>& a) {
  return {a.data(), a.shape(0)};
}
template <class T>
std::span<T> span(const Out<T>& a) {
  return {a.data(), a.shape(0)};
}

// An array of n numbers; null if it is empty.
template <class T>
const T* optional(const In<T>& a, size_t n) {
  require(a.shape(0) == n || a.shape(0) == 0, "one number per value, or none");
  return a.shape(0) ? a.data() : nullptr;
}

// Hands a buffer to NumPy, which frees it with the last array that refers to it.
template <class T, class... Options>
nanobind::ndarray<nanobind::numpy, T, Options...> give(std::unique_ptr<T[]> buffer,
                                                       const std::vector<size_t>& shape) {
  T* const data = buffer.get();
  nanobind::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  buffer.release();
  return {data, shape.size(), shape.data(), owner};
}

// An array of zeros.
template <class T>
auto make_array(const std::vector<size_t>& shape) {
  size_t n = 1;
  for (size_t s : shape) n *= s;
  return give(std::make_unique<T[]>(n), shape);
}

}  // namespace psgld
