// The one place where the templates of grid.hpp are compiled.
#include "data/grid.hpp"

namespace psgld {

PSGLD_GRID(, float)
PSGLD_GRID(, double)

}  // namespace psgld
