// Python bindings of predict.hpp and fold_in.hpp: exactly typed arrays in, no guessing.
#include "predict/predict.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "bind/arrays.hpp"
#include "bind/names.hpp"
#include "common/checks.hpp"
#include "common/kernels.hpp"
#include "predict/fold_in.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace psgld;

namespace {

void require_parameters(const In<double, 2>& parameters, size_t draws) {
  require(parameters.shape(0) == draws && parameters.shape(1) <= kMostParameters,
          "the parameters of the likelihood, of each draw");
}

// The arrays that a posterior keeps, held for as long as they are looked at.
template <class T>
struct Held {
  In<T, 3> w, h;
  std::optional<In<T, 2>> row_bias, col_bias;
  In<double> offset, phi;
  In<double, 2> parameters;
  Draws<T> view;

  Held(In<T, 3> w, In<T, 3> h, std::optional<In<T, 2>> a, std::optional<In<T, 2>> c, In<double> offset,
       In<double> phi, const std::string& family, In<double, 2> parameters, double floor)
      : w(w), h(h), row_bias(a), col_bias(c), offset(offset), phi(phi), parameters(parameters) {
    const size_t draws = w.shape(0);
    require(draws > 0 && h.shape(0) == draws && h.shape(2) == w.shape(2), "W and H do not match");
    require_between(static_cast<int64_t>(w.shape(2)), 1, kMostComponents, "components");
    require(offset.shape(0) == draws && phi.shape(0) == draws, "one offset and one phi per draw");
    require_parameters(parameters, draws);
    require(a.has_value() == c.has_value(), "both biases, or none");
    if (a)
      require(a->shape(0) == draws && c->shape(0) == draws && a->shape(1) == w.shape(1) &&
                  c->shape(1) == h.shape(1),
              "one bias per row and per column");
    view = {static_cast<int64_t>(draws),
            static_cast<int64_t>(w.shape(1)),
            static_cast<int64_t>(h.shape(1)),
            static_cast<int>(w.shape(2)),
            w.data(),
            h.data(),
            a ? a->data() : nullptr,
            c ? c->data() : nullptr,
            offset.data(),
            phi.data(),
            family_named(family),
            static_cast<int>(parameters.shape(1)),
            parameters.data(),
            floor};
  }

  Observation asked(bool fresh, uint64_t seed) const {
    require(!fresh || view.traits().draws, "the core draws no new observations of this family");
    return {fresh, seed};
  }

  void check(const In<int64_t>& rows) const { require_indices(span(rows), view.rows, "row"); }
  void check(const In<int64_t>& rows, const In<int64_t>& cols) const {
    require(rows.shape(0) == cols.shape(0), "as many rows as columns");
    check(rows);
    require_indices(span(cols), view.columns, "column");
  }
};

template <class T>
void bind_draws(nb::module_& m, const char* name) {
  using H = Held<T>;
  using Pairs = In<int64_t>;
  nb::class_<H>(m, name)
      .def(nb::init<In<T, 3>, In<T, 3>, std::optional<In<T, 2>>, std::optional<In<T, 2>>, In<double>,
                    In<double>, const std::string&, In<double, 2>, double>(),
           "W"_a, "H"_a, "row_bias"_a.none(), "col_bias"_a.none(), "offset"_a, "phi"_a, "family"_a,
           "parameters"_a, "floor"_a)
      .def(
          "moments",
          [](const H& d, Pool& pool, Pairs rows, Pairs cols, Out<double, 2> out) {
            d.check(rows, cols);
            require(out.shape(1) == rows.shape(0) && (out.shape(0) == 2 || out.shape(0) == 3), "wrong shape");
            nb::gil_scoped_release release;
            const size_t n = rows.shape(0);
            moments(pool, d.view, span(rows), span(cols), out.data(), out.data() + n,
                    out.shape(0) == 3 ? out.data() + 2 * n : nullptr);
          },
          "pool"_a, "rows"_a, "cols"_a, "out"_a)
      .def(
          "values",
          [](const H& d, Pool& pool, Pairs rows, Pairs cols, const std::string& kind, uint64_t seed,
             Out<double, 2> out) {
            d.check(rows, cols);
            require(static_cast<int64_t>(out.shape(0)) == d.view.draws && out.shape(1) == rows.shape(0),
                    "wrong shape");
            require(kind == "new" || kind == "mean" || kind == "eta", "no such values");
            Observation o = d.asked(kind == "new", seed);
            o.linear = kind == "eta";
            nb::gil_scoped_release release;
            values(pool, d.view, span(rows), span(cols), o, out.data());
          },
          "pool"_a, "rows"_a, "cols"_a, "kind"_a, "seed"_a, "out"_a)
      .def(
          "quantiles",
          [](const H& d, Pool& pool, Pairs rows, Pairs cols, bool fresh, uint64_t seed,
             In<double> probabilities, Out<double, 2> out) {
            d.check(rows, cols);
            require(out.shape(0) == probabilities.shape(0) && out.shape(1) == rows.shape(0), "wrong shape");
            for (size_t p = 0; p < probabilities.shape(0); ++p)
              require(probabilities.data()[p] >= 0.0 && probabilities.data()[p] <= 1.0, "not a probability");
            const Observation o = d.asked(fresh, seed);
            nb::gil_scoped_release release;
            quantiles(pool, d.view, span(rows), span(cols), o, {probabilities.data(), probabilities.shape(0)},
                      out.data());
          },
          "pool"_a, "rows"_a, "cols"_a, "fresh"_a, "seed"_a, "probabilities"_a, "out"_a)
      .def(
          "share_above",
          [](const H& d, Pool& pool, Pairs rows, Pairs cols, In<double> threshold, Out<double> out) {
            d.check(rows, cols);
            require(threshold.shape(0) == rows.shape(0) && out.shape(0) == rows.shape(0), "wrong shape");
            nb::gil_scoped_release release;
            share_above(pool, d.view, span(rows), span(cols), threshold.data(), out.data());
          },
          "pool"_a, "rows"_a, "cols"_a, "threshold"_a, "out"_a)
      .def(
          "scores",
          [](const H& d, Pool& pool, Pairs rows, const std::string& name, double threshold, Out<T, 2> mean,
             std::optional<Out<T, 2>> second) {
            d.check(rows);
            auto fits = [&](const Out<T, 2>& a) {
              return a.shape(0) == rows.shape(0) && static_cast<int64_t>(a.shape(1)) == d.view.columns;
            };
            const ScoreKind kind = score_named(name);
            require(second.has_value() == (kind == ScoreKind::sd || kind == ScoreKind::above),
                    "a second array for the scores that have one");
            require(fits(mean) && (!second || fits(*second)), "wrong shape");
            nb::gil_scoped_release release;
            scores(pool, d.view, span(rows), kind, threshold, mean.data(), second ? second->data() : nullptr);
          },
          "pool"_a, "rows"_a, "kind"_a, "threshold"_a, "mean"_a, "second"_a.none())
      .def(
          "best_by_bound",
          [](const H& d, Pool& pool, Pairs rows, double threshold, In<int64_t> start, In<int32_t> seen,
             In<bool> allowed, Out<int64_t, 2> out) {
            d.check(rows);
            require(static_cast<int64_t>(allowed.shape(0)) == d.view.columns &&
                        out.shape(0) == rows.shape(0) && out.shape(1) > 0,
                    "wrong shape");
            require_rows(span(start), span(seen), rows.shape(0), d.view.columns);
            nb::gil_scoped_release release;
            return best_by_bound(
                pool, d.view, span(rows), threshold,
                {start.data(), seen.data(), allowed.data(), static_cast<int64_t>(out.shape(1))}, out.data());
          },
          "pool"_a, "rows"_a, "threshold"_a, "start"_a, "seen"_a, "allowed"_a, "out"_a);

  m.def(
      "best",
      [](Pool& pool, In<T, 2> first, std::optional<In<T, 2>> second, In<int64_t> start, In<int32_t> seen,
         In<bool> allowed, Out<int64_t, 2> out) {
        const size_t rows = first.shape(0), columns = first.shape(1);
        require(!second || (second->shape(0) == rows && second->shape(1) == columns), "wrong shape");
        require(allowed.shape(0) == columns && out.shape(0) == rows && out.shape(1) > 0, "wrong shape");
        require_rows(span(start), span(seen), rows, columns);
        nb::gil_scoped_release release;
        best(pool, first.data(), second ? second->data() : nullptr, static_cast<int64_t>(rows),
             static_cast<int64_t>(columns),
             {start.data(), seen.data(), allowed.data(), static_cast<int64_t>(out.shape(1))}, out.data());
      },
      "pool"_a, "first"_a, "second"_a.none(), "start"_a, "seen"_a, "allowed"_a, "out"_a);

  m.def(
      "fold_in",
      [](Pool& pool, In<T, 3> h, In<double> phi, In<double, 2> linear, In<double, 2> quadratic,
         In<double, 3> coupling, In<double> inverse, bool real, In<double, 2> offset, const std::string& name,
         In<double, 2> parameters, double floor, In<int64_t> start, In<int32_t> index, In<double> value,
         In<double> weight, bool zeros, double zero_weight, int sweeps, uint64_t seed, Out<T, 3> out) {
        const size_t draws = h.shape(0), components = h.shape(2), rows = out.shape(1);
        require(phi.shape(0) == draws && linear.shape(0) == draws && quadratic.shape(0) == draws &&
                    linear.shape(1) == components && quadratic.shape(1) == components &&
                    inverse.shape(0) == draws,
                "wrong shape of the prior");
        require(out.shape(0) == draws && out.shape(2) == components, "wrong shape");
        require(index.shape(0) == value.shape(0), "wrong shape of the entries");
        require_rows(span(start), span(index), rows, h.shape(1));
        require(coupling.size() == 0 || (coupling.shape(0) == draws && coupling.shape(1) == components &&
                                         coupling.shape(2) == components),
                "wrong shape of the precision");
        require(offset.size() == 0 || (offset.shape(0) == draws && offset.shape(1) == h.shape(1)),
                "wrong shape of the offsets");
        require_parameters(parameters, draws);
        const int family = family_named(name);
        require(!zeros || families()[family].zeros == Zeros::sum,
                "implicit zeros are for families whose weight is 1");
        const FoldIn f{static_cast<int64_t>(draws),
                       static_cast<int64_t>(h.shape(1)),
                       static_cast<int64_t>(rows),
                       static_cast<int>(components),
                       phi.data(),
                       linear.data(),
                       quadratic.data(),
                       coupling.size() ? coupling.data() : nullptr,
                       inverse.data(),
                       real,
                       offset.size() ? offset.data() : nullptr,
                       family,
                       static_cast<int>(parameters.shape(1)),
                       parameters.data(),
                       floor,
                       start.data(),
                       index.data(),
                       value.data(),
                       optional(weight, value.shape(0)),
                       zeros,
                       zero_weight,
                       sweeps,
                       seed};
        nb::gil_scoped_release release;
        fold_in(pool, f, h.data(), out.data());
      },
      "pool"_a, "h"_a, "phi"_a, "linear"_a, "quadratic"_a, "coupling"_a, "inverse"_a, "real"_a, "offset"_a,
      "name"_a, "parameters"_a, "floor"_a, "start"_a, "index"_a, "value"_a, "weight"_a, "zeros"_a,
      "zero_weight"_a, "sweeps"_a, "seed"_a, "out"_a);
}

}  // namespace

void bind_predict(nb::module_& m) {
  bind_draws<float>(m, "Draws32");
  bind_draws<double>(m, "Draws64");
}
