// Rows of a matrix that somebody else holds.
#pragma once

#include <cstddef>

namespace psgld {

template <class T>
struct RowView {
  T* x;
  ptrdiff_t stride;  // from one row to the next
  T* operator[](ptrdiff_t row) const { return x + row * stride; }
};

}  // namespace psgld
