// Python bindings of bpmf.hpp: exactly typed arrays in, factors changed in place.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

#include "bpmf.hpp"

namespace nb = nanobind;
using namespace psgld;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using InMatrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(what);
}

template <class T>
NormalRows<T> job(const In<int64_t>& start, const In<int32_t>& index, const In<T>& value,
                  const InMatrix<T>& other, T* x, size_t rows, size_t components) {
  require(start.shape(0) == rows + 1 && index.shape(0) == value.shape(0), "wrong shapes");
  require(start.data()[0] == 0 && start.data()[rows] == static_cast<int64_t>(index.shape(0)),
          "rows must cover the entries");
  require(other.shape(1) == components, "as many components in both factors");
  NormalRows<T> out{};
  out.components = static_cast<int>(components);
  out.start = start.data();
  out.index = index.data();
  out.value = value.data();
  out.x = x;
  return out;
}

template <class T>
void bind(nb::module_& m) {
  m.def("draw_normal_rows", [](Pool& pool, In<int64_t> start, In<int32_t> index, In<T> value,
                               InMatrix<T> other, OutMatrix<T> x, InMatrix<double> precision,
                               In<double> linear, In<double> move, double phi, bool shared, int which,
                               uint64_t iteration, uint64_t key) {
    const size_t K = x.shape(1);
    require(precision.shape(0) == K && precision.shape(1) == K && linear.shape(0) == K && move.shape(0) == K,
            "one value a component");
    NormalRows<T> rows = job<T>(start, index, value, other, x.data(), x.shape(0), K);
    rows.precision = precision.data();
    rows.linear = linear.data();
    rows.move = move.data();
    rows.phi = phi;
    rows.shared = shared;
    rows.tag = static_cast<uint32_t>(which);
    rows.key = key;
    rows.iteration = iteration;
    nb::gil_scoped_release release;
    return draw_normal_rows(pool, rows, static_cast<int64_t>(x.shape(0)), other.data(),
                            static_cast<int64_t>(other.shape(0)));
  });
  m.def("sum_residuals", [](Pool& pool, In<int64_t> start, In<int32_t> index, In<T> value, InMatrix<T> other,
                            OutMatrix<T> x, bool zeros) {
    NormalRows<T> rows = job<T>(start, index, value, other, x.data(), x.shape(0), x.shape(1));
    nb::gil_scoped_release release;
    return sum_residuals(pool, rows, static_cast<int64_t>(x.shape(0)), other.data(),
                         static_cast<int64_t>(other.shape(0)), zeros);
  });
  m.def("gram", [](InMatrix<T> x, OutMatrix<double> out) {
    require(out.shape(0) == x.shape(1) && out.shape(1) == x.shape(1), "wrong shape");
    nb::gil_scoped_release release;
    Scratch* scratch = kernels<T>().make_scratch();
    kernels<T>().gram(x.data(), static_cast<int64_t>(x.shape(0)), static_cast<int64_t>(x.shape(1)),
                      static_cast<int>(x.shape(1)), out.data(), scratch);
    kernels<T>().free_scratch(scratch);
  });
}

}  // namespace

void bind_bpmf(nb::module_& m) {
  bind<float>(m);
  bind<double>(m);
}
