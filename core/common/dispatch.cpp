// Chooses the kernels for this machine, once, when the module is imported.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "common/kernels.hpp"
#include "gibbs/gibbs.hpp"

namespace psgld {

#define PSGLD_LEVEL(level)                                           \
  namespace level {                                                  \
  template <class T>                                                 \
  const Kernels<T>& table();                                         \
  extern template const Kernels<float>& table<float>();              \
  extern template const Kernels<double>& table<double>();            \
  template <class T>                                                 \
  const GibbsKernels<T>& gibbs_table();                              \
  extern template const GibbsKernels<float>& gibbs_table<float>();   \
  extern template const GibbsKernels<double>& gibbs_table<double>(); \
  }
#if defined(PSGLD_HAS_v2)
PSGLD_LEVEL(v2)
PSGLD_LEVEL(v3)
PSGLD_LEVEL(v4)
#else
PSGLD_LEVEL(generic)
#endif

namespace {

#if defined(PSGLD_HAS_v2)
int supported_level() {
  __builtin_cpu_init();
  const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? 4 : v3 ? 3 : 2;
}

int chosen_level() {
  static const int level = [] {
    const char* wish = std::getenv("PSGLD_ISA");
    const int best = supported_level();
    if (!wish || !*wish) return best;
    const std::string name = wish;
    const int level = name == "v2" ? 2 : name == "v3" ? 3 : name == "v4" ? 4 : 0;
    if (level == 0) throw std::runtime_error("PSGLD_ISA must be v2, v3 or v4, got '" + name + "'");
    if (level > best)
      throw std::runtime_error("PSGLD_ISA=" + name + " is not supported by this processor, which has v" +
                               std::to_string(best) + "; unset it or choose a lower one");
    return level;
  }();
  return level;
}
#endif

}  // namespace

template <class T>
const Kernels<T>& kernels() {
#if defined(PSGLD_HAS_v2)
  static const Kernels<T>& chosen = chosen_level() == 4   ? v4::table<T>()
                                    : chosen_level() == 3 ? v3::table<T>()
                                                          : v2::table<T>();
#else
  static const Kernels<T>& chosen = generic::table<T>();
#endif
  return chosen;
}
template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();

template <class T>
const GibbsKernels<T>& gibbs_kernels() {
#if defined(PSGLD_HAS_v2)
  static const GibbsKernels<T>& chosen = chosen_level() == 4   ? v4::gibbs_table<T>()
                                         : chosen_level() == 3 ? v3::gibbs_table<T>()
                                                               : v2::gibbs_table<T>();
#else
  static const GibbsKernels<T>& chosen = generic::gibbs_table<T>();
#endif
  return chosen;
}
template const GibbsKernels<float>& gibbs_kernels<float>();
template const GibbsKernels<double>& gibbs_kernels<double>();

const char* instruction_set() { return kernels<float>().name; }

}  // namespace psgld
