// Python bindings of chain.hpp: exactly typed arrays in and out, no guessing.
#include "langevin/chain.hpp"

#include <nanobind/stl/string.h>

#include <string>
#include <string_view>

#include "bind/arrays.hpp"
#include "bind/chain_arguments.hpp"
#include "bind/names.hpp"
#include "common/checks.hpp"
#include "likelihood/families.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace psgld;

namespace {

// A chain as Python holds it: its arrays are written to, and asked for by name.
template <class T>
struct BoundChain : Chain<T> {
  using Base = Chain<T>;
  BoundChain(const Grid<T>& grid, int components, bool swapped, const Likelihood<T>& likelihood, bool close)
      : Chain<T>(grid, components, swapped, likelihood, close) {}

  // W is 0 and H is 1.
  Factor<T>& factor(int which) {
    require_between(which, 0, 1, "the factor");
    return Base::factor(which);
  }
  const Side<T>& side(int which) const {
    require_between(which, 0, 1, "the factor");
    return Base::side(which);
  }

  void scatter(int which, const Aligned<T>& to, const T* from) {
    const Side<T>& s = side(which);
    const size_t width = this->components, stride = factor(which).stride;
    for (size_t i = 0; i < s.size(); ++i)
      if (s.here(i)) std::copy_n(from + i * width, width, to.data() + s.position(i) * stride);
  }

  // A stretch that can be run, and the entries that it draws, if any.
  Stretch checked(Stretch s, const In<int32_t, 2>& draws) const {
    require(draws.size() == 0 || (draws.shape(0) == s.parts.size() && draws.shape(1) == this->grid.widest()),
            "a number of draws for each chunk of each iteration");
    require(s.steps.size() == s.parts.size() && s.scales.size() == s.parts.size(),
            "one step and one scale per iteration");
    require_indices(s.parts, this->grid.parts, "part");
    require(this->metric != Metric::non_negative ||
                (this->outer.inverse_root.data() && this->inner.inverse_root.data()),
            "the non-negative metric needs its bound");
    for (size_t q = 0; draws.size() > 0 && q < draws.shape(0); ++q)
      check_draws(draws.data() + q * draws.shape(1), s.parts[q]);
    s.draws = {draws.data(), draws.size()};
    return s;
  }

  // Entries are drawn only from chunks that have some.
  void check_draws(const int32_t* draws, int part) const {
    const auto& chunks = this->grid.chunks[part];
    bool ok = true;
    for (size_t c = 0; c < chunks.size(); ++c)
      ok &= draws[c] == 0 || (draws[c] > 0 && this->grid.chunk_entries(part, c, this->likelihood.zeros) > 0);
    require(ok, "draws from a chunk without entries, or a negative number of them");
  }

  // An array of a factor by name: "x", "momentum", "inverse_root" (of the metric), "saved" (what `restore`
  // goes back to) or "sum" (of scores or weights).
  Aligned<T>& array(int which, std::string_view name) {
    Factor<T>& f = factor(which);
    Aligned<T>& a = name == "x"              ? f.x
                    : name == "momentum"     ? f.momentum
                    : name == "inverse_root" ? f.inverse_root
                    : name == "saved"        ? f.saved
                                             : f.sum;
    require(&a != &f.sum || name == "sum", "no such array");
    if (!a.data()) a = Aligned<T>(f.x.size());
    return a;
  }
};

template <class T>
void bind_chain(nb::module_& m, const char* name) {
  using G = Grid<T>;
  using C = BoundChain<T>;
  using Sums = decltype(make_array<double>({}));
  using Pair = nb::typed<nb::tuple, Sums, Sums>;

  nb::class_<C>(m, name)
      .def(
          "__init__",
          [](C* self, const G& grid, int components, bool swapped, const std::string& name, double floor,
             bool zeros, double zero_weight, bool close) {
            require_between(components, 1, kMostComponents, "components");
            const int family = family_named(name);
            require(!zeros || families()[family].zeros != Zeros::none,
                    "implicit zeros are for families that can add them up");
            new (self) C(grid, components, swapped,
                         {family, {}, static_cast<T>(floor), zeros, static_cast<T>(zero_weight)}, close);
          },
          nb::keep_alive<1, 2>(), "grid"_a, "components"_a, "swapped"_a, "family"_a, "floor"_a, "zeros"_a,
          "zero_weight"_a, "close"_a)
      .def_prop_rw(
          "metric", [](const C& c) { return std::string(kMetricNames[static_cast<int>(c.metric)]); },
          [](C& c, const std::string& name) { c.metric = metric_named(name); })
      .def_prop_rw(
          "mirror", [](const C& c) { return c.mirror; }, [](C& c, bool x) { c.mirror = x; })
      .def_prop_rw(
          "sums_logs", [](const C& c) { return c.sums_logs; },
          [](C& c, bool x) { c.sums_logs = x, c.changed(); })
      .def_prop_rw(
          "temperature", [](const C& c) { return static_cast<double>(c.temperature); },
          [](C& c, double x) { c.temperature = static_cast<T>(x); })
      .def_prop_rw(
          "momentum", [](const C& c) { return static_cast<double>(c.momentum); },
          [](C& c, double x) { c.momentum = static_cast<T>(x); })
      .def_prop_rw(
          "phi", [](const C& c) { return static_cast<double>(c.phi); },
          [](C& c, double x) { c.phi = static_cast<T>(x); })
      .def(
          "set_parameters",
          [](C& c, In<double> parameters) {  // of the likelihood, besides phi
            require(parameters.shape(0) <= kMostParameters, "too many parameters");
            std::copy_n(parameters.data(), parameters.shape(0), c.likelihood.parameter);
          },
          "parameters"_a)
      .def_prop_rw(
          "key", [](const C& c) { return c.key; }, [](C& c, uint64_t x) { c.key = x; })
      .def(
          "set_prior",
          [](C& c, int which, double inverse, In<double> linear, In<double> quadratic) {
            c.factor(which).inverse = static_cast<T>(inverse);
            set_vector(c, c.factor(which).linear, linear);
            set_vector(c, c.factor(which).quadratic, quadratic);
          },
          "which"_a, "inverse"_a, "linear"_a, "quadratic"_a)
      .def(
          "set_coupling",
          [](C& c, int which, In<double, 2> precision) {
            require(static_cast<int>(precision.shape(0)) == c.components &&
                        static_cast<int>(precision.shape(1)) == c.components,
                    "expected components x components");
            Aligned<T>& to = c.factor(which).coupling;
            const size_t whole = whole_stride(c.components);
            if (!to.data()) to = Aligned<T>(c.factor(which).stride * whole);
            for (int k = 0; k < c.components; ++k)
              for (int l = 0; l < c.components; ++l)
                to[k * whole + l] = static_cast<T>(precision.data()[k * c.components + l]);
          },
          "which"_a, "precision"_a)
      .def(
          "set_move", [](C& c, int which, In<double> move) { set_vector(c, c.factor(which).move, move); },
          "which"_a, "move"_a)
      .def(
          "set_curvature",
          [](C& c, int which, In<double> curvature, In<double> ridge) {
            set_vector(c, c.factor(which).curvature, curvature);
            set_vector(c, c.factor(which).ridge, ridge);
          },
          "which"_a, "curvature"_a, "ridge"_a)
      .def(
          "curvature",
          [](C& c, int which) {  // as `set_curvature` takes it: curvature, ridge
            const size_t width = c.components;
            auto out = make_array<double>({2, width});
            std::copy_n(c.factor(which).curvature.data(), width, out.data());
            std::copy_n(c.factor(which).ridge.data(), width, out.data() + width);
            return out;
          },
          "which"_a)
      .def(
          "set_bound",
          [](C& c, Pool& pool, int which, In<double> rate) {
            require(static_cast<int>(rate.shape(0)) == c.components, "expected one rate per component");
            require(c.factor(which).sum.data() != nullptr, "accumulate the weights first");
            c.set_bound(pool, c.factor(which), span(rate));
          },
          "pool"_a, "which"_a, "rate"_a)
      .def(
          "advance",
          [](C& c, Pool& pool, uint64_t t, In<int32_t> parts, In<double> steps, In<double> scales,
             In<int32_t, 2> draws, int first, int last) {
            require(0 <= first && first <= last && last <= c.grid.strips, "no such strips");
            const Stretch stretch = c.checked({t, span(parts), span(steps), span(scales)}, draws);
            nb::gil_scoped_release release;
            c.advance(pool, stretch, {first, last});
          },
          "pool"_a, "t"_a, "parts"_a, "steps"_a, "scales"_a, "draws"_a, "first"_a, "last"_a)
      .def(
          "advance_marking",
          [](C& c, Pool& pool, uint64_t t, In<int32_t> parts, In<double> steps, In<double> scales,
             In<int32_t, 2> draws, In<int64_t> marks, In<int64_t> rows, In<int64_t> columns, In<T> v,
             In<T> weights, Out<T, 3> W, Out<T, 3> H) {
            const Stretch stretch = c.checked({t, span(parts), span(steps), span(scales)}, draws);
            const size_t n = marks.shape(0);
            for (size_t m = 0; m < n; ++m)
              require((m ? marks.data()[m - 1] : 0) < marks.data()[m] &&
                          marks.data()[m] <= static_cast<int64_t>(parts.shape(0)),
                      "marks among the iterations, in their order");
            for (int which : {0, 1}) {
              const Out<T, 3>& out = which == 0 ? W : H;
              require(out.shape(0) == W.shape(0) && (out.shape(0) == 0 || out.shape(0) == n) &&
                          out.shape(1) == c.side(which).size() &&
                          static_cast<int>(out.shape(2)) <= c.components && out.shape(2) == W.shape(2),
                      "wrong shape");
            }
            auto sums = make_array<double>({n, 2, 3, static_cast<size_t>(c.components)});
            auto kernel = make_array<double>({n});
            Marks<T> taken{span(marks), monitored<T>(c, rows, columns, v, weights), sums.data(),
                           kernel.data()};
            if (W.shape(0) > 0) taken.room[0] = W.data(), taken.room[1] = H.data(), taken.width = W.shape(2);
            {
              nb::gil_scoped_release release;
              c.advance(pool, stretch, c.all(), &taken);
            }
            return Pair(nb::make_tuple(sums, kernel));
          },
          "pool"_a, "t"_a, "parts"_a, "steps"_a, "scales"_a, "draws"_a, "marks"_a, "rows"_a, "columns"_a,
          "v"_a, "weights"_a, "W"_a, "H"_a)
      .def(
          "accumulate",
          [](C& c, Pool& pool, const std::string& name, int part) {
            const Pass pass = sum_named(name);
            require_between(part, -1, c.grid.parts - 1, "the part");
            nb::gil_scoped_release release;
            c.accumulate(pool, pass, part);
          },
          "pool"_a, "name"_a, "part"_a)
      .def("clear_sums", &C::clear_sums)
      .def(
          "add_sums",
          [](C& c, Pool& pool, const std::string& name, int part, int first, int last) {
            const Pass pass = sum_named(name);
            require_between(part, 0, c.grid.parts - 1, "the part");
            require(0 <= first && first <= last && last <= c.grid.strips, "no such strips");
            require(c.outer.sum.data() != nullptr, "clear the sums first");
            nb::gil_scoped_release release;
            c.add_sums(pool, pass, part, {first, last});
          },
          "pool"_a, "name"_a, "part"_a, "first"_a, "last"_a)
      .def("strip_squares",
           [](C& c) {
             auto out = make_array<double>({static_cast<size_t>(c.grid.strips), 1});
             for (int b = 0; b < c.grid.strips; ++b) out.data()[b] = c.strip_squares(b);
             return out;
           })
      .def(
          "residuals",
          [](C& c, bool saved) {
            const std::vector<double>& from = c.residuals(saved);
            auto out = make_array<double>({from.size()});
            std::copy(from.begin(), from.end(), out.data());
            return out;
          },
          "saved"_a)
      .def(
          "set_residuals",
          [](C& c, bool saved, In<double> residuals) {
            require(residuals.shape(0) == c.residuals(false).size(), "one value per chunk");
            c.residuals(saved).assign(residuals.data(), residuals.data() + residuals.shape(0));
          },
          "saved"_a, "residuals"_a)
      .def("fresh_squares", &C::fresh_squares, "pool"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "sums",
          [](C& c, Pool& pool) {  // (W and H; x, x^2, log x and count x^2; components)
            auto out = make_array<double>({2, 4, static_cast<size_t>(c.components)});
            nb::gil_scoped_release release;
            c.sums(pool, out.data());
            return out;
          },
          "pool"_a)
      .def(
          "strip_sums",
          [](C& c, int which, In<int64_t> strips) {  // (strips; x, x^2, log x and count x^2; components)
            const size_t width = 4 * static_cast<size_t>(c.components);
            require_indices(span(strips), c.side(which).rows.size(), "strip");
            auto out = make_array<double>({strips.shape(0), width});
            int s = 0;
            for (const int64_t b : span(strips))
              c.strip_sums(c.side(which), c.factor(which), static_cast<int>(b), out.data() + width * s++);
            return out;
          },
          "which"_a, "strips"_a)
      .def(
          "strip_grams",
          [](C& c, int which, In<int64_t> strips) {  // (strips, components * components)
            const size_t cells = static_cast<size_t>(c.components) * c.components;
            require_indices(span(strips), c.side(which).rows.size(), "strip");
            auto out = make_array<double>({strips.shape(0), cells});
            for (size_t s = 0; s < strips.shape(0); ++s) {
              const int64_t b = strips.data()[s];
              c.strip_gram(c.side(which), c.factor(which), static_cast<int>(b), out.data() + s * cells);
            }
            return out;
          },
          "which"_a, "strips"_a)
      .def(
          "array",
          [](C& c, int which, const char* name) {  // as it is kept, (places, stride), not a copy
            c.changed();
            const Aligned<T>& a = c.array(which, name);
            const size_t stride = c.factor(which).stride, shape[] = {a.size() / stride, stride};
            return nb::ndarray<nb::numpy, T>(a.data(), 2, shape, nb::find(c));
          },
          "which"_a, "name"_a, nb::rv_policy::reference_internal)
      .def(
          "gather",
          [](C& c, Pool& pool, int which, const char* name, Out<T, 2> out) {
            require(out.shape(0) == c.side(which).size() && static_cast<int>(out.shape(1)) <= c.components,
                    "wrong shape");
            const Aligned<T>& from = c.array(which, name);
            nb::gil_scoped_release release;
            c.gather(pool, which, from, out.data(), out.shape(1));
          },
          "pool"_a, "which"_a, "name"_a, "out"_a)
      .def(
          "scatter",
          [](C& c, int which, const char* name, In<T, 2> x) {
            require(x.shape(0) == c.side(which).size() && static_cast<int>(x.shape(1)) == c.components,
                    "wrong shape");
            c.scatter(which, c.array(which, name), x.data());
            c.changed();
          },
          "which"_a, "name"_a, "x"_a)
      .def(
          "noise",
          [](C& c, int which, uint64_t iteration, In<int64_t> of) {
            require_indices(span(of), c.side(which).size(), "row");
            const size_t rows = of.shape(0);
            auto out = make_array<float>({rows, static_cast<size_t>(c.components)});
            std::vector<uint32_t> ids(of.data(), of.data() + rows);
            langevin_kernels<T>().noise(ids.data(), static_cast<int64_t>(rows), c.components,
                                        c.factor(which).tag, iteration, c.key, out.data(), c.components,
                                        OwnScratch<T>());
            return out;
          },
          "which"_a, "iteration"_a, "of"_a)
      .def(
          "positions",
          [](C& c, int which, In<int64_t> rows) {
            const Side<T>& s = c.side(which);
            require_indices(span(rows), s.size(), "row");
            auto out = make_array<int64_t>({rows.shape(0)});
            for (size_t q = 0; q < rows.shape(0); ++q) {
              const size_t id = rows.data()[q];
              out.data()[q] = s.here(id) ? static_cast<int64_t>(s.position(id)) : -1;
            }
            return out;
          },
          "which"_a, "rows"_a)
      .def(
          "mu",
          [](C& c, In<int64_t> rows, In<int64_t> columns) {  // positions
            require_places(c, rows, columns);
            auto out = make_array<T>({rows.shape(0)});
            nb::gil_scoped_release release;
            langevin_kernels<T>().dots(c.factor(0).rows(), c.factor(1).rows(), c.components, rows.data(),
                                       columns.data(), static_cast<int64_t>(rows.shape(0)), out.data());
            return out;
          },
          "rows"_a, "columns"_a)
      .def(
          "log_kernel",
          [](C& c, In<T> v, In<T> mu, In<T> weights) {
            require(v.shape(0) == mu.shape(0), "as many values as means");
            const T* weight = optional(weights, v.shape(0));
            nb::gil_scoped_release release;
            return langevin_kernels<T>().log_kernel(c.likelihood, v.data(), weight, mu.data(),
                                                    static_cast<int64_t>(v.shape(0)));
          },
          "v"_a, "mu"_a, "weights"_a)
      .def(
          "log_kernel_at",
          [](C& c, Pool& pool, In<int64_t> rows, In<int64_t> columns, In<T> v,
             In<T> weights) {  // positions
            const Monitored<T> entries = monitored<T>(c, rows, columns, v, weights);
            nb::gil_scoped_release release;
            return c.log_kernel_at(pool, entries);
          },
          "pool"_a, "rows"_a, "columns"_a, "v"_a, "weights"_a)
      .def("save", &C::save)
      .def("restore", [](C& c) {
        require(c.outer.saved.data() && c.inner.saved.data() &&
                    c.residuals(true).size() == c.residuals(false).size(),
                "nothing was saved");
        c.restore();
      });
}

}  // namespace

void bind_chain(nb::module_& m) {
  bind_chain<float>(m, "Chain32");
  bind_chain<double>(m, "Chain64");
}
