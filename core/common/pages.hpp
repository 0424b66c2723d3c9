// Memory that is about to be written for the first time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "common/pool.hpp"

#if defined(__linux__) && !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23  // since Linux 5.14; headers may be older than the system
#endif

namespace psgld {

// Has the system clear the pages of an array, all threads taking part. Left to the first write to each, that
// comes in the midst of other work: one thread clears a huge page and has its cache full of zeros, the others
// wait. A hint: where the system does not know it, nothing happens.
inline void make_pages([[maybe_unused]] Pool& pool, [[maybe_unused]] void* first,
                       [[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t piece = uintptr_t{1} << 21;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));  // elsewhere than on x86, up to 64 KiB
  const auto begin = reinterpret_cast<uintptr_t>(first) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(first) + bytes + page - 1) / page * page;
  const auto pieces = static_cast<int64_t>((end + piece - 1) / piece - begin / piece);
  for_each(pool, pieces, [&](int64_t q) {
    const uintptr_t from = std::max(begin, (begin / piece + q) * piece);
    const uintptr_t to = std::min(end, (begin / piece + q + 1) * piece);
    madvise(reinterpret_cast<void*>(from), to - from, MADV_POPULATE_WRITE);
  });
#endif
}

}  // namespace psgld
