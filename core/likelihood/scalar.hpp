// The families for doubles, one at a time: compiled once, whatever the instruction set, so that their bits
// are the same on all of them. For files that are not compiled per instruction set.
#pragma once

#define PSGLD_ISA scalar
#include "likelihood/registry.hpp"
