// Compiled once per instruction-set level (PSGLD_ISA names it); kernels.hpp says what each function does.
#include "bpmf/kernels.hpp"

#include "bpmf/normal_rows.hpp"

namespace psgld::PSGLD_ISA {

template <class T>
const BpmfKernels<T>& bpmf_kernels() {
  static const BpmfKernels<T> kernels{.normal_rows = normal_rows<T>, .residuals = residuals<T>};
  return kernels;
}
template const BpmfKernels<float>& bpmf_kernels<float>();
template const BpmfKernels<double>& bpmf_kernels<double>();

}  // namespace psgld::PSGLD_ISA
