// What the bindings of a chain are given, checked.
#pragma once

#include "bind/arrays.hpp"
#include "common/checks.hpp"
#include "langevin/chain.hpp"

namespace psgld {

// Places in W and in H.
template <class T>
void require_places(const Chain<T>& c, const In<int64_t>& rows, const In<int64_t>& columns) {
  require(rows.shape(0) == columns.shape(0), "as many rows as columns");
  require_indices(span(rows), c.side(0).positions, "place in W");
  require_indices(span(columns), c.side(1).positions, "place in H");
}

template <class T>
Monitored<T> monitored(const Chain<T>& c, const In<int64_t>& rows, const In<int64_t>& columns, const In<T>& v,
                       const In<T>& weights) {
  require_places(c, rows, columns);
  require(v.shape(0) == rows.shape(0), "as many values as places");
  optional(weights, v.shape(0));
  return {span(rows), span(columns), span(v), span(weights)};
}

template <class T>
void set_vector(const Chain<T>& chain, const Aligned<T>& to, const In<double>& from) {
  require(static_cast<int>(from.shape(0)) == chain.components, "expected one value per component");
  chain.set_vector(to, from.data());
}

}  // namespace psgld
