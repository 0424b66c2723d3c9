// Chooses the instruction-set level for this machine, once, when the module is imported.
#include "common/dispatch.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace psgld {

#if defined(PSGLD_HAS_v2)
namespace {

int supported_level() {
  __builtin_cpu_init();
  const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? 4 : v3 ? 3 : 2;
}

int choose_level() {
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
}

}  // namespace

int instruction_level() {
  static const int level = choose_level();
  return level;
}
const char* instruction_set() {
  return instruction_level() == 4 ? "v4" : instruction_level() == 3 ? "v3" : "v2";
}
#else
int instruction_level() { return 0; }
const char* instruction_set() { return "generic"; }
#endif

}  // namespace psgld
