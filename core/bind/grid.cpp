// Python bindings of grid.hpp: exactly typed arrays in, no guessing.
#include "data/grid.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "bind/arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace psgld;

namespace {

// Floats or doubles: told apart by hand, as another overload takes much longer to compile.
template <int N>
using Values = nb::ndarray<nb::ro, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

template <class Array, class F>
auto with_values(const Array& values, F&& f) {
  if (values.dtype() == nb::dtype<float>()) return f(static_cast<const float*>(values.data()));
  if (values.dtype() != nb::dtype<double>()) throw nb::type_error("values must be float32 or float64");
  return f(static_cast<const double*>(values.data()));
}

// The weights of values: of the same shape and type, or none.
template <class Array, class Value>
const Value* like(const Array& values, const Array& weights, const Value*) {
  if (weights.size() == 0) return nullptr;
  require(weights.size() == values.size() && weights.shape(0) == values.shape(0) &&
              weights.dtype() == values.dtype(),
          "weights of the shape and the type of the values");
  return static_cast<const Value*>(weights.data());
}

template <class T>
void bind_blocks(nb::module_& m, const char* name) {
  using G = Grid<T>;

  // The outer side: the strips that are kept here, the number of the first, and the rows of V on that side.
  // The inner side: all strips.
  auto grid = nb::class_<G>(m, name);
  grid.def(
      "__init__",
      [](G* self, In<int64_t> start, In<int32_t> index, Values<1> value, Values<1> weight, bool swapped,
         bool zeros, double shift, int first_strip, size_t outer_size, In<int64_t> order0,
         In<int64_t> bounds0, In<int64_t> order1, In<int64_t> bounds1) {
        require(index.shape(0) == value.shape(0), "one value per index");
        with_values(value, [&]<class Value>(const Value* values) {
          const Value* weights = like(value, weight, values);
          nb::gil_scoped_release release;
          new (self) G(Rows<Value>{span(start), span(index), values, {}, weights}, swapped, zeros, shift,
                       first_strip, Side<T>(span(order0), span(bounds0), outer_size),
                       Side<T>(span(order1), span(bounds1), order1.shape(0)));
        });
      },
      "start"_a, "index"_a, "value"_a, "weight"_a, "swapped"_a, "zeros"_a, "shift"_a, "first_strip"_a,
      "outer_size"_a, "order0"_a, "bounds0"_a, "order1"_a, "bounds1"_a);
  grid.def(
      "__init__",
      [](G* self, Values<2> v, Values<2> weight, bool swapped, double shift, int first_strip,
         size_t outer_size, In<int64_t> order0, In<int64_t> bounds0, In<int64_t> order1,
         In<int64_t> bounds1) {
        with_values(v, [&](const auto* values) {
          const auto* weights = like(v, weight, values);
          nb::gil_scoped_release release;
          new (self) G(values, weights, v.shape(0), v.shape(1), swapped, shift, first_strip,
                       Side<T>(span(order0), span(bounds0), outer_size),
                       Side<T>(span(order1), span(bounds1), order1.shape(0)));
        });
      },
      "v"_a, "weight"_a, "swapped"_a, "shift"_a, "first_strip"_a, "outer_size"_a, "order0"_a, "bounds0"_a,
      "order1"_a, "bounds1"_a);
  grid.def(
      "fill",
      [](G& g, In<int64_t> start, In<int32_t> index, Values<1> value, In<int64_t> ids, int strip,
         double shift) {
        require(index.shape(0) == value.shape(0), "one value per index");
        return with_values(value, [&]<class Value>(const Value* values) {
          nb::gil_scoped_release release;
          return g.fill(Rows<Value>{span(start), span(index), values, span(ids)}, strip, shift);
        });
      },
      "start"_a, "index"_a, "value"_a, "ids"_a, "strip"_a, "shift"_a);
  grid.def(
      "__init__",
      [](G* self, int file, bool create, const std::string& key, In<int64_t> entries, In<double> counts0,
         In<double> counts1, bool swapped, In<int64_t> order0, In<int64_t> bounds0, In<int64_t> order1,
         In<int64_t> bounds1) {
        require(key.size() == kDigestBytes, "a key as long as the checksum");
        require(counts0.shape(0) == order0.shape(0) && counts1.shape(0) == order1.shape(0) &&
                    entries.shape(0) == (bounds0.shape(0) - 1) * (bounds1.shape(0) - 1),
                "a count for each row of either side, and for each block");
        nb::gil_scoped_release release;
        new (self) G(file, create, key, span(entries), span(counts0), span(counts1), swapped,
                     Side<T>(span(order0), span(bounds0), order0.shape(0)),
                     Side<T>(span(order1), span(bounds1), order1.shape(0)));
      },
      "file"_a, "create"_a, "key"_a, "entries"_a, "counts0"_a, "counts1"_a, "swapped"_a, "order0"_a,
      "bounds0"_a, "order1"_a, "bounds1"_a);
  grid.def("finish", &G::finish, nb::call_guard<nb::gil_scoped_release>());
  grid.def_prop_ro("file_bytes", &G::file_bytes);
  grid.def("entries", [](const G& g) {
    auto out = make_array<int64_t>({static_cast<size_t>(g.strips), static_cast<size_t>(g.parts)});
    for (size_t k = 0; k < g.blocks.size(); ++k) out.data()[k] = g.blocks[k].entries;
    return out;
  });
  grid.def("inner_strips", [](const G& g) {  // of each: the place of its first row, and its length
    auto out = make_array<int64_t>({static_cast<size_t>(g.parts), 2});
    for (int c = 0; c < g.parts; ++c) {
      out.data()[2 * c] = g.inner.first[c];
      out.data()[2 * c + 1] = g.inner.rows[c];
    }
    return out;
  });
  grid.def("inner_counts", [](const G& g) {  // of the entries that are here
    auto out = make_array<int64_t>({g.inner.size()});
    for (size_t j = 0; j < g.inner.size(); ++j)
      out.data()[j] = static_cast<int64_t>(g.inner.counts[g.inner.position(j)]);
    return out;
  });
  grid.def(
      "set_inner_counts",
      [](G& g, In<int64_t> counts) {  // of all entries
        require(counts.shape(0) == g.inner.size(), "one count per row");
        for (size_t j = 0; j < g.inner.size(); ++j)
          g.inner.counts[g.inner.position(j)] = static_cast<T>(counts.data()[j]);
      },
      "counts"_a);

  grid.def(
      "set_counts",
      [](G& g, In<double> outer, In<double> inner) {  // the weights of all rows of both sides
        g.set_counts(g.outer, span(outer));
        g.set_counts(g.inner, span(inner));
      },
      "outer"_a, "inner"_a);

  grid.def("cut_chunks", &G::cut_chunks, "drawn"_a);
  grid.def(
      "chunk_entries",
      [](const G& g, bool cells) {  // (parts, widest): what each chunk can draw from
        auto out = make_array<int64_t>({static_cast<size_t>(g.parts), g.widest()});
        for (int p = 0; p < g.parts; ++p)
          for (size_t c = 0; c < g.chunks[p].size(); ++c)
            out.data()[p * g.widest() + c] = g.chunk_entries(p, c, cells);
        return out;
      },
      "cells"_a);

  grid.def("slot_parts", [](const G& g) {  // of the squared residuals of each chunk: the part of its block
    auto out = make_array<int64_t>({static_cast<size_t>(g.chunk_slots)});
    for (int p = 0; p < g.parts; ++p)
      for (const Chunk& chunk : g.chunks[p]) {
        const int block = chunk.outer_strip * g.parts + g.inner_strip(chunk.outer_strip, p);
        out.data()[g.chunk_slot[block] + chunk.number] = p;
      }
    return out;
  });
}

}  // namespace

void bind_grid(nb::module_& m) {
  bind_blocks<float>(m, "Grid32");
  bind_blocks<double>(m, "Grid64");
}
