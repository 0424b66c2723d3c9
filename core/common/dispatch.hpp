// The choice of kernels. Each subsystem has a table of them, Table<T>, that its kernels.cpp makes once per
// instruction-set level, psgld::v4::pick<T>(); PSGLD_DISPATCH in one other file makes psgld::pick<T>(), the
// table of this machine.
#pragma once

namespace psgld {

int instruction_level();        // 2, 3 or 4; 0 where there is one level only
const char* instruction_set();  // its name

#define PSGLD_TABLE_OF(level, Table, pick)             \
  namespace level {                                    \
  template <class T>                                   \
  const Table<T>& pick();                              \
  extern template const Table<float>& pick<float>();   \
  extern template const Table<double>& pick<double>(); \
  }

#if defined(PSGLD_HAS_v2)
#define PSGLD_TABLES(Table, pick) \
  PSGLD_TABLE_OF(v2, Table, pick) \
  PSGLD_TABLE_OF(v3, Table, pick) \
  PSGLD_TABLE_OF(v4, Table, pick)
#define PSGLD_CHOSEN(pick) \
  instruction_level() == 4 ? v4::pick<T>() : instruction_level() == 3 ? v3::pick<T>() : v2::pick<T>()
#else
#define PSGLD_TABLES(Table, pick) PSGLD_TABLE_OF(generic, Table, pick)
#define PSGLD_CHOSEN(pick) generic::pick<T>()
#endif

#define PSGLD_DISPATCH(Table, pick)                     \
  PSGLD_TABLES(Table, pick)                             \
  template <class T>                                    \
  const Table<T>& pick() {                              \
    static const Table<T>& chosen = PSGLD_CHOSEN(pick); \
    return chosen;                                      \
  }                                                     \
  template const Table<float>& pick<float>();           \
  template const Table<double>& pick<double>();

}  // namespace psgld
