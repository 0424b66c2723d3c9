// Python bindings of csr.hpp, inspect.hpp, label_index.hpp, spool.hpp and text.hpp: exactly typed arrays in,
// arrays owned by NumPy out, no guessing.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "bind/arrays.hpp"
#include "bind/names.hpp"
#include "common/checks.hpp"
#include "data/csr.hpp"
#include "data/inspect.hpp"
#include "data/label_index.hpp"
#include "data/spool.hpp"
#include "data/text.hpp"

namespace nb = nanobind;
using namespace nb::literals;

using psgld::In, psgld::Out, psgld::span, psgld::require, psgld::require_between;

namespace {

template <class T>
auto give(std::unique_ptr<T[]> buffer, std::int64_t size) {
  return psgld::give<T, nb::ndim<1>>(std::move(buffer), {static_cast<std::size_t>(size)});
}

template <class T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
template <class... T>
using Tuple = nb::typed<nb::tuple, T...>;
using std::int64_t, std::int32_t;

template <class Index, class Value>
Tuple<Array<int64_t>, Array<int32_t>, Array<Value>, int64_t, int64_t, int64_t> canonical_csr(
    const In<Index>& rows, const In<Index>& cols, const In<Value>& values, std::int64_t n_rows,
    std::int64_t n_cols, std::string_view duplicates) {
  const psgld::Duplicates policy = psgld::duplicates_named(duplicates);
  psgld::Csr<Value> csr;
  {
    nb::gil_scoped_release release;
    csr = psgld::canonical_csr(span(rows), span(cols), span(values), n_rows, n_cols, policy);
  }
  return nb::make_tuple(give(std::move(csr.indptr), n_rows + 1), give(std::move(csr.indices), csr.size),
                        give(std::move(csr.values), csr.size), csr.n_duplicates, csr.first_row,
                        csr.first_col);
}

template <class Value>
Tuple<int64_t, int64_t> count_non_finite(const In<Value>& values) {
  psgld::NonFinite found;
  {
    nb::gil_scoped_release release;
    found = psgld::find_non_finite(span(values));
  }
  return nb::make_tuple(found.count, found.first);
}

template <class Value>
Tuple<const char*, int64_t, double, double, double, double> inspect_rows(const In<std::int64_t>& start,
                                                                         const In<std::int32_t>& index,
                                                                         const In<Value>& value,
                                                                         const In<std::uint16_t>& strips,
                                                                         const Out<std::int64_t>& counts) {
  psgld::Inspected found;
  {
    nb::gil_scoped_release release;
    found = psgld::inspect_rows(span(start), span(index), span(value), span(strips), span(counts));
  }
  return nb::make_tuple(psgld::name_of(found.fault), found.at, found.total, found.deviation, found.least,
                        found.largest);
}

template <class Value>
void define_inspect_rows(nb::module_& m) {
  m.def("inspect_rows", &inspect_rows<Value>, "start"_a.noconvert(), "index"_a.noconvert(),
        "value"_a.noconvert(), "strips"_a.noconvert(), "counts"_a.noconvert(),
        "Look at every entry of compressed rows, and add up the entries of each strip of columns: (fault, "
        "entry at fault, total, deviation, least, largest).\n"
        "fault: \"none\", \"index\" (a column out of range), \"order\" (one that does not follow the one "
        "before), \"value\" (not finite).");
}

template <class Index, class Value>
void define_canonical_csr(nb::module_& m) {
  m.def("canonical_csr", &canonical_csr<Index, Value>, "rows"_a.noconvert(), "cols"_a.noconvert(),
        "values"_a.noconvert(), "n_rows"_a, "n_cols"_a, "duplicates"_a = "error",
        "Sorted compressed rows of loose entries: (indptr, indices, values, n_duplicates, first_row, "
        "first_col).\n"
        "duplicates: \"error\" counts them only, \"sum\", \"mean\", \"last\" merge them.");
}

auto encode(psgld::LabelIndex& index, const In<std::int64_t>& labels) {
  auto codes = std::make_unique_for_overwrite<std::int32_t[]>(labels.shape(0));
  {
    nb::gil_scoped_release release;
    index.encode(span(labels), codes.get());
  }
  return give(std::move(codes), static_cast<std::int64_t>(labels.shape(0)));
}

auto known_labels(const psgld::LabelIndex& index) {
  const auto& labels = index.labels();
  auto copy = std::make_unique_for_overwrite<std::int64_t[]>(labels.size());
  std::copy(labels.begin(), labels.end(), copy.get());
  return give(std::move(copy), static_cast<std::int64_t>(labels.size()));
}

template <class Value>
Tuple<Array<std::uint8_t>, Array<int64_t>, bool> group_entries(const In<std::uint16_t>& strips,
                                                               const In<std::int32_t>& rows,
                                                               const In<std::int32_t>& cols,
                                                               const In<Value>& values, int blocks,
                                                               const Out<std::int64_t>& row_counts,
                                                               const Out<std::int64_t>& col_counts) {
  require_between(blocks, 0, 1 << 16, "blocks");
  psgld::Grouped grouped;
  auto bounds = std::make_unique_for_overwrite<std::int64_t[]>(blocks + std::size_t{1});
  {
    nb::gil_scoped_release release;
    grouped = psgld::group_entries(span(strips), span(rows), span(cols), span(values), blocks,
                                   span(row_counts), span(col_counts));
  }
  std::copy(grouped.bounds.begin(), grouped.bounds.end(), bounds.get());
  auto* const records = reinterpret_cast<std::uint8_t*>(grouped.records.release());
  return nb::make_tuple(give(std::unique_ptr<std::uint8_t[]>(records), grouped.bytes),
                        give(std::move(bounds), blocks + std::int64_t{1}), grouped.single);
}

template <class Value>
std::size_t place_entries(const In<std::uint8_t>& records, bool single, const In<std::int32_t>& place,
                          const In<std::int32_t>& index, std::int32_t first, std::int32_t last,
                          const Out<std::int32_t>& rows, const Out<std::int32_t>& cols,
                          const Out<Value>& values, std::size_t done) {
  nb::gil_scoped_release release;
  const auto put = single ? &psgld::place_entries<float, Value> : &psgld::place_entries<double, Value>;
  return put(std::as_bytes(span(records)), span(place), span(index), first, last, span(rows), span(cols),
             span(values), done);
}

std::optional<Tuple<Array<int64_t>, Array<int64_t>, Array<double>>> text_entries(std::string_view text,
                                                                                 std::string_view delimiter,
                                                                                 std::array<int, 3> columns,
                                                                                 int width) {
  require(!delimiter.empty(), "a delimiter is needed");
  for (int column : columns) require_between(column, 0, 1 << 20, "a column");
  psgld::TextEntries entries;
  bool plain;
  {
    nb::gil_scoped_release release;
    plain = psgld::parse_entries(text, delimiter, columns, width, entries);
  }
  if (!plain) return std::nullopt;
  return nb::make_tuple(give(std::move(entries.rows), entries.size),
                        give(std::move(entries.cols), entries.size),
                        give(std::move(entries.values), entries.size));
}

template <class Value>
void define_spool(nb::module_& m) {
  m.def("group_entries", &group_entries<Value>, "strips"_a.noconvert(), "rows"_a.noconvert(),
        "cols"_a.noconvert(), "values"_a.noconvert(), "blocks"_a, "row_counts"_a.noconvert(),
        "col_counts"_a.noconvert(),
        "Records of a batch of entries in the order of strips: (records, bounds of the strips, whether the "
        "values are float32).\n"
        "The counts of the row and column codes are added to.");
  m.def("place_entries", &place_entries<Value>, "records"_a.noconvert(), "single"_a, "place"_a.noconvert(),
        "index"_a.noconvert(), "first"_a, "last"_a, "rows"_a.noconvert(), "cols"_a.noconvert(),
        "values"_a.noconvert(), "done"_a,
        "Append the records of the rows at the places [first, last) to entries of which `done` are there; "
        "return how many there are then.");
}

}  // namespace

void bind_data(nb::module_& m) {
  nb::class_<psgld::LabelIndex>(m, "LabelIndex")
      .def(nb::init<>())
      .def("encode", &encode, "labels"_a.noconvert(), "Codes of labels; new ones get the next numbers.")
      .def("labels", &known_labels, "All labels so far, in the order of their codes.")
      .def("__len__", [](const psgld::LabelIndex& index) { return index.labels().size(); });
  define_canonical_csr<std::int32_t, float>(m);
  define_canonical_csr<std::int32_t, double>(m);
  define_canonical_csr<std::int64_t, float>(m);
  define_canonical_csr<std::int64_t, double>(m);
  m.def("parse_entries", &text_entries, "text"_a, "delimiter"_a, "columns"_a, "width"_a,
        "Rows, columns and values of lines of plain numbers, taken from the given columns; None if a line is "
        "not plain, or has more than `width` fields.");
  define_spool<float>(m);
  define_spool<double>(m);
  m.def("find_non_finite", &count_non_finite<float>, "values"_a.noconvert(),
        "The number of NaN and infinite values, and the position of the first (-1 without).");
  m.def("find_non_finite", &count_non_finite<double>, "values"_a.noconvert());
  define_inspect_rows<float>(m);
  define_inspect_rows<double>(m);
}
