// Python bindings of gibbs.hpp: exactly typed arrays in, the factors changed in place.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <stdexcept>

#include "gibbs.hpp"

namespace nb = nanobind;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(what);
}

template <class T>
std::vector<T> copy(const In<T>& a) {
  return {a.data(), a.data() + a.shape(0)};
}

psgld::Lists lists(const In<int64_t>& start, const In<int32_t>& index, int64_t rows, int64_t others) {
  psgld::Lists out{copy(start), copy(index)};
  if (out.start.empty()) return out;
  const int64_t size = static_cast<int64_t>(out.index.size());
  require(static_cast<int64_t>(out.start.size()) == rows + 1 && out.start.front() == 0 &&
              out.start.back() == size && std::is_sorted(out.start.begin(), out.start.end()),
          "no compressed rows");
  for (int32_t j : out.index) require(j >= 0 && j < others, "index out of range");
  return out;
}

template <class T>
void bind(nb::module_& m, const char* name) {
  using G = psgld::Gibbs<T>;
  nb::class_<G>(m, name)
      .def(
          "__init__",
          [](G* self, const psgld::Counts& data, int components) {
            require(components >= 1 && components <= 1024, "1 to 1024 components");
            new (self) G(data, components);
          },
          nb::keep_alive<1, 2>())
      .def("advance", [](G& g, psgld::Pool& pool, uint64_t key, uint64_t t, int64_t n, Matrix<T> outer,
                         double outer_shape, In<double> outer_rate, Matrix<T> inner, double inner_shape,
                         In<double> inner_rate) {
        auto factor = [&](const Matrix<T>& x, int64_t rows, double shape, const In<double>& rate) {
          require(static_cast<int64_t>(x.shape(0)) == rows && static_cast<int>(x.shape(1)) == g.components &&
                      static_cast<int>(rate.shape(0)) == g.components,
                  "wrong shapes");
          require(shape > 0, "shape must be positive");
          return typename G::Factor{x.data(), shape, {rate.data(), rate.shape(0)}};
        };
        const auto first = factor(outer, g.data.outer_rows, outer_shape, outer_rate),
                   second = factor(inner, g.data.inner_rows, inner_shape, inner_rate);
        nb::gil_scoped_release release;
        g.advance(pool, key, t, n, first, second);
      });
}

}  // namespace

void bind_gibbs(nb::module_& m) {
  nb::class_<psgld::Counts>(m, "Counts")
      .def("__init__", [](psgld::Counts* self, int64_t outer, int64_t inner, In<int64_t> start,
                          In<int32_t> index, In<int32_t> count, In<int64_t> outer_start,
                          In<int32_t> outer_index, In<int64_t> inner_start, In<int32_t> inner_index) {
        require(count.shape(0) == index.shape(0) && start.shape(0) > 0, "one count an index");
        nb::gil_scoped_release release;
        new (self) psgld::Counts{outer,
                                 inner,
                                 lists(start, index, outer, inner),
                                 copy(count),
                                 lists(outer_start, outer_index, outer, inner),
                                 lists(inner_start, inner_index, inner, outer)};
      });
  bind<float>(m, "Gibbs32");
  bind<double>(m, "Gibbs64");
}
