// Gibbs sampling of a Gaussian model, one factor at a time: all its rows given the other, on a pool of
// threads. `other` holds rows x components; `job.other` is set here.
#pragma once

#include "bpmf/kernels.hpp"
#include "common/pool.hpp"

namespace psgld {

// Returns how many rows had no Cholesky factor and stayed as they were.
template <class T>
int draw_normal_rows(Pool& pool, NormalRows<T> job, int64_t rows, const T* other, int64_t other_rows);

// The sum of squared residuals over the stored entries (kernels.hpp), always in the same order.
template <class T>
double sum_residuals(Pool& pool, NormalRows<T> job, int64_t rows, const T* other, int64_t other_rows,
                     bool zeros);

}  // namespace psgld
