// The working memory of one thread.
#pragma once

#include "common/buffer.hpp"
#include "random/noise.hpp"

namespace psgld::PSGLD_ISA {

// (Everything compiled per level lives in that level's namespace: the linker must never mix two levels.)
struct ThreadScratch {
  NoisePattern pattern;
  Buffer noise, kept, gradient, packed, panel, zeros, coupling, matrix;
  Buffer words, bins, start, index, tile_row, value, weight;  // of a subsample
};

}  // namespace psgld::PSGLD_ISA
