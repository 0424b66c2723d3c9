// Python bindings of gibbs.hpp: exactly typed arrays in, the factors changed in place.
#include "gibbs/gibbs.hpp"

#include <algorithm>

#include "bind/arrays.hpp"
#include "common/checks.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace psgld;

namespace {

template <class T>
std::vector<T> copy(const In<T>& a) {
  return {a.data(), a.data() + a.shape(0)};
}

Lists lists(const In<int64_t>& start, const In<int32_t>& index, int64_t rows, int64_t others) {
  if (start.shape(0) > 0) require_rows(span(start), span(index), rows, others);
  return {copy(start), copy(index)};
}

template <class T>
void bind_sampler(nb::module_& m, const char* name) {
  using G = Gibbs<T>;
  nb::class_<G>(m, name)
      .def(
          "__init__",
          [](G* self, const Counts& data, int components) {
            require_between(components, 1, kMostComponents, "components");
            new (self) G(data, components);
          },
          nb::keep_alive<1, 2>(), "data"_a, "components"_a)
      .def(
          "advance",
          [](G& g, Pool& pool, uint64_t key, uint64_t t, int64_t n, Out<T, 2> outer, double outer_shape,
             In<double> outer_rate, Out<T, 2> inner, double inner_shape, In<double> inner_rate) {
            auto factor = [&](const Out<T, 2>& x, int64_t rows, double shape, const In<double>& rate) {
              require(static_cast<int64_t>(x.shape(0)) == rows &&
                          static_cast<int>(x.shape(1)) == g.components &&
                          static_cast<int>(rate.shape(0)) == g.components,
                      "wrong shapes");
              require(shape > 0, "shape must be positive");
              return typename G::Factor{x.data(), shape, {rate.data(), rate.shape(0)}};
            };
            require(n >= 0, "a number of sweeps");
            const auto first = factor(outer, g.data.outer_rows, outer_shape, outer_rate),
                       second = factor(inner, g.data.inner_rows, inner_shape, inner_rate);
            nb::gil_scoped_release release;
            g.advance(pool, key, t, n, first, second);
          },
          "pool"_a, "key"_a, "t"_a, "n"_a, "outer"_a, "outer_shape"_a, "outer_rate"_a, "inner"_a,
          "inner_shape"_a, "inner_rate"_a);
}

}  // namespace

void bind_gibbs(nb::module_& m) {
  nb::class_<Counts>(m, "Counts")
      .def(
          "__init__",
          [](Counts* self, int64_t outer, int64_t inner, In<int64_t> start, In<int32_t> index,
             In<int32_t> count, In<int64_t> outer_start, In<int32_t> outer_index, In<int64_t> inner_start,
             In<int32_t> inner_index, In<double> outer_weight, In<double> inner_weight, double everywhere) {
            require(outer >= 0 && inner >= 0, "numbers of rows");
            require(count.shape(0) == index.shape(0) && start.shape(0) > 0, "one count per index");
            require(std::ranges::all_of(span(count), [](int32_t n) { return n > 0; }), "counts are positive");
            optional(outer_weight, outer_index.shape(0));
            optional(inner_weight, inner_index.shape(0));
            nb::gil_scoped_release release;
            new (self) Counts{outer,
                              inner,
                              lists(start, index, outer, inner),
                              copy(count),
                              lists(outer_start, outer_index, outer, inner),
                              lists(inner_start, inner_index, inner, outer),
                              copy(outer_weight),
                              copy(inner_weight),
                              everywhere};
          },
          "outer"_a, "inner"_a, "start"_a, "index"_a, "count"_a, "outer_start"_a, "outer_index"_a,
          "inner_start"_a, "inner_index"_a, "outer_weight"_a, "inner_weight"_a, "everywhere"_a);
  bind_sampler<float>(m, "Gibbs32");
  bind_sampler<double>(m, "Gibbs64");
}
