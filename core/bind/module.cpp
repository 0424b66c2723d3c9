// The Python face of the core: exactly typed arrays in and out, no guessing. `_core.pyi` says what is here.
#include <nanobind/stl/string.h>

#include <string>
#include <system_error>

#include "bind/arrays.hpp"
#include "common/checks.hpp"
#include "common/dispatch.hpp"
#include "common/kernels.hpp"
#include "common/pages.hpp"
#include "langevin/group_sums.hpp"
#include "likelihood/families.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace psgld;

void bind_data(nb::module_& m);
void bind_chain(nb::module_& m);
void bind_grid(nb::module_& m);
void bind_gibbs(nb::module_& m);
void bind_predict(nb::module_& m);
void bind_bpmf(nb::module_& m);

namespace {

// As many threads as are asked for, or MemoryError: each needs a stack, and the system has a limit on them.
void make_pool(Pool* self, int threads) {
  require_between(threads, 1, kMostThreads, "threads");
  try {
    new (self) Pool(threads);
  } catch (const std::system_error& error) {
    const std::string said = "cannot start " + std::to_string(threads) + " threads (" +
                             error.code().message() + "); use fewer, or allow more memory or processes";
    PyErr_SetString(PyExc_MemoryError, said.c_str());
    throw nb::python_error();
  }
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Compiled core of psgld: blocks, kernels, the loop over iterations.";
  m.attr("instruction_set") = instruction_set();
  m.attr("panel_rows") = kPanelRows;
  m.def("tiles_of", &tiles_of, "rows"_a, "columns"_a, "entries"_a, "The number of tiles of a sparse block.");
  m.def("families", [] {  // what the core says of each family, by its name
    nb::typed<nb::dict, nb::str, nb::typed<nb::dict, nb::str, nb::object>> out;
    for (const Traits& f : families()) {
      nb::dict traits;
      traits["zeros"] = f.zeros == Zeros::sum ? "sum" : f.zeros == Zeros::gram ? "gram" : "none";
      traits["positive"] = f.positive;
      traits["identity"] = f.identity;
      traits["draws"] = f.draws;
      traits["residuals"] = f.squares;
      traits["lattice"] = f.lattice;
      out[f.name] = traits;
    }
    return out;
  });
  m.def(
      "make_pages",
      [](Pool& pool, nb::ndarray<nb::numpy, nb::c_contig, nb::device::cpu> room) {
        nb::gil_scoped_release release;
        make_pages(pool, room.data(), room.nbytes());
      },
      "pool"_a, "room"_a);
  m.def(
      "add_rows",
      [](In<double, 2> x) {  // as the sums over strips are
        auto out = make_array<double>({x.shape(1)});
        add_grouped(x.data(), x.shape(0), x.shape(1), out.data());
        return out;
      },
      "x"_a);
  nb::class_<Pool>(m, "Pool").def("__init__", &make_pool, "threads"_a).def_prop_ro("size", &Pool::size);
  bind_grid(m);
  bind_chain(m);
  bind_data(m);
  bind_gibbs(m);
  bind_predict(m);
  bind_bpmf(m);
}
