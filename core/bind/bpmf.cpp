// Python bindings of bpmf.hpp: exactly typed arrays in, factors changed in place.
#include "bpmf/bpmf.hpp"

#include "bind/arrays.hpp"
#include "common/checks.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace psgld;

namespace {

// Compressed rows that a sampler goes through again and again: checked once, held for as long.
template <class T>
struct HeldRows {
  In<int64_t> start;
  In<int32_t> index;
  In<T> value, weight;
  T zero_weight;
  size_t rows, columns;

  HeldRows(In<int64_t> start, In<int32_t> index, In<T> value, size_t columns, In<T> weight,
           double zero_weight)
      : start(start),
        index(index),
        value(value),
        weight(weight),
        zero_weight(static_cast<T>(zero_weight)),
        rows(start.shape(0) - 1),
        columns(columns) {
    optional(weight, value.shape(0));
    require(start.shape(0) > 0 && index.shape(0) == value.shape(0), "wrong shapes");
    require_rows(span(start), span(index), rows, columns);
  }

  NormalRows<T> job(const In<T, 2>& other, const Out<T, 2>& x) const {
    require(x.shape(0) == rows && other.shape(0) == columns, "one row of a factor for each of the data");
    require(other.shape(1) == x.shape(1), "as many components in both factors");
    require_between(static_cast<int64_t>(x.shape(1)), 1, kMostComponents, "components");
    NormalRows<T> out{};
    out.components = static_cast<int>(x.shape(1));
    out.start = start.data();
    out.index = index.data();
    out.value = value.data();
    out.weight = optional(weight, value.shape(0));
    out.zero_weight = zero_weight;
    out.x = x.data();
    return out;
  }
};

template <class T>
void bind_rows(nb::module_& m, const char* name) {
  using R = HeldRows<T>;
  nb::class_<R>(m, name).def(nb::init<In<int64_t>, In<int32_t>, In<T>, size_t, In<T>, double>(), "start"_a,
                             "index"_a, "value"_a, "columns"_a, "weight"_a, "zero_weight"_a);
  m.def(
      "draw_normal_rows",
      [](Pool& pool, const R& data, In<T, 2> other, Out<T, 2> x, In<double, 2> precision, In<double> linear,
         In<double> move, double phi, bool shared, int which, uint64_t iteration, uint64_t key) {
        const size_t K = x.shape(1);
        require(
            precision.shape(0) == K && precision.shape(1) == K && linear.shape(0) == K && move.shape(0) == K,
            "one value per component");
        NormalRows<T> rows = data.job(other, x);
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
      },
      "pool"_a, "data"_a, "other"_a, "x"_a, "precision"_a, "linear"_a, "move"_a, "phi"_a, "shared"_a,
      "which"_a, "iteration"_a, "key"_a);
  m.def(
      "sum_residuals",
      [](Pool& pool, const R& data, In<T, 2> other, Out<T, 2> x, bool zeros) {
        NormalRows<T> rows = data.job(other, x);
        nb::gil_scoped_release release;
        return sum_residuals(pool, rows, static_cast<int64_t>(x.shape(0)), other.data(),
                             static_cast<int64_t>(other.shape(0)), zeros);
      },
      "pool"_a, "data"_a, "other"_a, "x"_a, "zeros"_a);
  m.def(
      "gram",
      [](In<T, 2> x, Out<double, 2> out) {
        require(out.shape(0) == x.shape(1) && out.shape(1) == x.shape(1), "wrong shape");
        nb::gil_scoped_release release;
        langevin_kernels<T>().gram(x.data(), static_cast<int64_t>(x.shape(0)),
                                   static_cast<int64_t>(x.shape(1)), static_cast<int>(x.shape(1)), out.data(),
                                   OwnScratch<T>());
      },
      "x"_a, "out"_a);
  m.def(
      "dots",
      [](In<T, 2> x, In<T, 2> y, In<int64_t> i, In<int64_t> j, Out<T> out) {
        require(x.shape(1) == y.shape(1) && i.shape(0) == j.shape(0) && out.shape(0) == i.shape(0),
                "wrong shapes");
        nb::gil_scoped_release release;
        require_indices(span(i), x.shape(0), "row of x");
        require_indices(span(j), y.shape(0), "row of y");
        const auto stride = static_cast<ptrdiff_t>(x.shape(1));
        langevin_kernels<T>().dots({x.data(), stride}, {y.data(), stride}, static_cast<int>(stride), i.data(),
                                   j.data(), static_cast<int64_t>(i.shape(0)), out.data());
      },
      "x"_a, "y"_a, "i"_a, "j"_a, "out"_a);
}

}  // namespace

void bind_bpmf(nb::module_& m) {
  bind_rows<float>(m, "Rows32");
  bind_rows<double>(m, "Rows64");
}
