// Compiled once per instruction-set level (PSGLD_ISA names it); kernels.hpp says what each function does.
#include "predict/kernels.hpp"

#include "predict/draw_tile.hpp"
#include "predict/quantile_tile.hpp"
#include "predict/score_tile.hpp"
#include "predict/screen.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
const ScreenKernels* screen_kernels() {
#if defined(PSGLD_HAS_INT16)
  if (sizeof(T) == sizeof(float)) return screen_table();
#endif
  return nullptr;
}

template <class T>
const PredictKernels<T>& predict_kernels() {
  static const PredictKernels<T> kernels{
      .scores = scores<T>,
      .add_noise = add_noise<T>,
      .first_words = first_words,
      .first_try = first_try,
      .sort_lanes = sort_lanes<T>,
      .screen = screen_kernels<T>(),
  };
  return kernels;
}
template const PredictKernels<float>& predict_kernels<float>();
template const PredictKernels<double>& predict_kernels<double>();

}  // namespace psgld::PSGLD_ISA
