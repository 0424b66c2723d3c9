import builtins
import gzip
import re

import numpy as np
import pandas
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import psgld
from psgld import _core
from psgld.data.matrix_market import read_market
from psgld.data.observations import Observations, observations
from psgld.data.shards import shard
from psgld.errors import DataError, PsgldWarning

LIBRARIES = ("pandas", "polars", "pyarrow")
USERS, ITEMS, VALUES = [7, 7, 12, 9000], [3, 1, 3, 2], [5.0, 3.5, 4.0, 1.0]


def check(V, users=USERS, items=ITEMS, values=VALUES):
    """The entries of V, in the user's labels, are these."""
    rows, cols, got = V.entries(np.arange(V.stored))
    names = [
        np.arange(n) if given is None else given
        for n, given in zip(V.shape, (V.row_labels, V.col_labels), strict=True)
    ]
    entries = zip(names[0][rows].tolist(), names[1][cols].tolist(), got.tolist(), strict=True)
    assert sorted(entries) == sorted(zip(users, items, values, strict=True))


# -- frames


def make(library, columns):
    module = pytest.importorskip(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames(library):
    columns = {"user": USERS, "item": ITEMS, "rating": VALUES, "time": [1, 2, 3, 4]}
    df = make(library, columns)
    check(Observations.from_frame(df))
    check(observations(df))
    check(Observations.from_frame(df, row="item", col="user"), ITEMS, USERS)
    with pytest.warns(PsgldWarning, match="read from 'user', 'item', 'time', of 4 columns"):
        check(Observations.from_frame(df, value="time"), values=[1, 2, 3, 4])
    check(Observations.from_frame(df, row=1, col=0, value=3), ITEMS, USERS, [1, 2, 3, 4])
    check(observations(make(library, columns) for _ in range(1)))
    named = make(library, {"value": VALUES, "other": USERS, "Column": ITEMS, "row": USERS})
    check(Observations.from_frame(named))


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_that_are_not_named(library):
    """An index or a time is passed over, other columns are told of, and a matrix is not taken for a list."""
    entries, time = {"user": USERS, "item": ITEMS, "rating": VALUES}, {"timestamp": [5, 6, 7, 8]}
    check(Observations.from_frame(make(library, {"Unnamed: 0": [0, 1, 2, 3], **entries, **time})))
    for columns in ({**entries, "genre": list("abcd")}, {**time, **entries}):
        with pytest.warns(PsgldWarning, match="read from 'user', 'item', 'rating', of 4 columns"):
            check(Observations.from_frame(make(library, columns)))
    for names, kind in (("abcd", np.int64), ("abcdef", np.float64), ("abc", np.float32)):
        wide = make(library, {name: np.linspace(0, 4, 9).astype(kind) for name in names})
        with pytest.raises(
            DataError, match=f"a table of {len(names)} columns of one type, 'a', 'b'.*to_numpy"
        ):
            observations(wide)
    for kind in (np.int64, np.float64):  # pandas makes floats of numbers with gaps
        three = make(library, {name: np.arange(4).astype(kind) for name in ("user", "item", "rating")})
        assert observations(three).shape == (4, 4)


@pytest.mark.parametrize("library", LIBRARIES)
def test_frame_labels(library):
    users = ["bo", "al", "Zoé", "al"]
    df = make(library, {"user": users, "item": ITEMS, "rating": np.array(VALUES, np.float32)})
    V = Observations.from_frame(df, absent="zero")
    check(V, users)
    assert V.row_labels.tolist() == sorted(set(users)) and V.row_labels.dtype.kind == "U"
    assert V.col_labels.tolist() == [1, 2, 3] and V.col_labels.dtype == np.int64
    assert V.values.dtype == np.float32 and V.absent_chosen


@pytest.mark.parametrize("library", LIBRARIES)
def test_frame_errors(library):
    for name, role in (("user", "row"), ("item", "column"), ("rating", "value")):
        columns = {"user": list("abc"), "item": [1, 2, 3], "rating": [1.0, 2.0, 3.0]}
        columns[name] = [None, columns[name][1], None]
        with pytest.raises(DataError, match=rf"2 null\(s\) in column '{name}' \({role}\)"):
            Observations.from_frame(make(library, columns))
    df = make(library, {"user": ["a"], "item": ["b"], "rating": ["c"]})
    with pytest.raises(DataError, match="must be real numbers, got an array of object"):
        Observations.from_frame(df)
    with pytest.raises(DataError, match=r"no column 'stars'; the columns are \['user', 'item', 'rating'\]"):
        Observations.from_frame(df, value="stars")
    with pytest.raises(DataError, match="three different columns"):
        Observations.from_frame(df, row="user", col="user")
    with pytest.raises(DataError, match=r"three columns are needed.*got \['a', 'b'\]"):
        Observations.from_frame(make(library, {"a": [1], "b": [2]}))


def test_categories():
    pandas = pytest.importorskip("pandas")
    users = pandas.Categorical(["b", "a", "a", "b"], categories=["b", "a", "unused"])
    V = Observations.from_frame(pandas.DataFrame({"user": users, "item": ITEMS, "rating": VALUES}))
    assert V.row_labels.tolist() == ["a", "b"]
    polars = pytest.importorskip("polars")
    df = polars.DataFrame({"user": list("baab"), "item": ITEMS, "rating": VALUES})
    check(Observations.from_frame(df.with_columns(polars.col("user").cast(polars.Categorical))), list("baab"))


# -- text


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Let the tests cross the borders of blocks."""
    monkeypatch.setattr("psgld.system.lines._BLOCK", 16)


def lines(separator, header=None):
    text = [separator.join(map(str, (*entry, 978300760))) for entry in zip(USERS, ITEMS, VALUES, strict=True)]
    return "\n".join([*([header] if header else []), *text]) + "\n"


@pytest.mark.parametrize("separator", [",", ";", "\t", " ", "::", "|", " , ", "   "])
@pytest.mark.parametrize("suffix", [".csv", ".dat.gz"])
def test_delimiters(tmp_path, separator, suffix):
    path = tmp_path / f"ratings{suffix}"
    with (gzip.open if suffix.endswith(".gz") else open)(path, "wt") as file:
        file.write(lines(separator))
    V = Observations.from_file(path)
    check(V)
    assert V.row_labels.dtype == np.int64 and not V.absent_chosen
    check(observations(str(path)))


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("header.csv", lines(",", "user,item,rating,time"), {}),
        ("named.tsv", lines("\t", "user\titem\trating\ttime"), {"value": "rating", "row": "user"}),
        ("bom.csv", "\ufeff" + lines(","), {}),
        ("crlf.csv", lines(",", "a,b,c,Date").replace("\n", "\r\n"), {}),
        ("blank.txt", "\n\n" + lines(",").replace("\n", "\n\n  \n"), {}),
        ("no_end.data", lines("\t").rstrip("\n"), {}),
        ("order.csv", "value;row;col\n5;7;3\n3.5;7;1\n4;12;3\n1;9000;2", {}),
        ("place.csv", "x,5,7,3\nx,3.5,7,1\nx,4,12,3\nx,1,9000,2", {"row": 2, "col": 3, "value": 1}),
        ("genres.csv", "7,3,5,a|b|c|d\n7,1,3.5,a\n12,3,4,a|b\n9000,2,1,", {}),
    ],
)
@pytest.mark.filterwarnings("ignore:genres.csv has 4 columns:psgld.PsgldWarning")
def test_text(tmp_path, name, text, columns):
    path = tmp_path / name
    path.write_bytes(text.encode())
    check(Observations.from_file(path, **columns))


def test_string_labels(tmp_path):
    path = tmp_path / "named.csv"
    path.write_text('who,what,value\n"Lee, Al",007,1\nb,7,2.5\n c ,+8,3\n', encoding="utf-8")
    V = Observations.from_file(path)
    check(V, ["Lee, Al", "b", "c"], ["007", "7", "+8"], [1, 2.5, 3])
    path.write_text("1.5,99999999999999999999,1\n2,7,2\n", encoding="utf-8")
    check(Observations.from_file(path), ["1.5", "2"], ["99999999999999999999", "7"], [1, 2])


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.text("ab1é ", min_size=1), st.integers(), st.floats(-9, 9)), min_size=1))
def test_any_labels_come_back(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("text") / "any.csv"
    entries = list({(r.strip() or "x", c): (r.strip() or "x", c, v) for r, c, v in entries}.values())
    path.write_text("r,c,v\n" + "".join(f'"{r}",{c},{v!r}\n' for r, c, v in entries), encoding="utf-8")
    V = Observations.from_file(path)
    assert V.stored == len({(V.row_index([r])[0], V.col_index([str(c)])[0]) for r, c, _ in entries})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("12,7,abc", "line 4: value 'abc' is not a number: 12,7,abc"),
        ("12,7,nan", "line 4: value 'nan' is not finite: 12,7,nan"),
        ("12,7,-inf,8", "line 4: value '-inf' is not finite: 12,7,-inf,8"),
        ("12,7", r"line 4: 2 field\(s\), at least 3 are needed: 12,7"),
        ("12,7,1_000", "line 4: value '1_000' is not a number: 12,7,1_000"),
        ("12,7,", "line 4: value '' is not a number: 12,7,"),
        (",7,5", "line 4: a row or column label is missing: ,7,5"),
        ('"12,7,5', r"line 4: 1 field\(s\), at least 3 are needed"),
        ("1,2," + "x" * 99, "line 4: value 'x+' is not a number: 1,2,x{55}…$"),
    ],
)
def test_bad_line(tmp_path, bad, message):
    path = tmp_path / "ratings.csv"
    path.write_text(f"user,item,rating\n1,2,3\n\n{bad}\n4,5,6\n")
    with pytest.raises(DataError, match=r"^ratings\.csv, " + message):
        Observations.from_file(path)


@pytest.mark.parametrize("label", ["u", ""])
def test_more_fields_than_the_first_line(label, tmp_path):
    """As decimal commas give, or a header that does not name the numbers of the lines."""
    path = tmp_path / "ratings.csv"
    path.write_text(f"user,item,stars\n{label}1,2,4\n{label}3,4,1,5\n")
    with pytest.raises(DataError, match=r"ratings\.csv, line 3: 4 fields, the first line has 3: u?3,4,1,5"):
        Observations.from_file(path)
    path.write_text(f"user item stars\n1 {label}1 2 4\n2 {label}3 4 1\n")
    with pytest.raises(DataError, match=r"line 2: 4 fields, the first line has 3"):
        Observations.from_file(path)
    path.write_text(f'user,item,stars\n{label}1,2,4,\n"{label}3",4,1,,\n')  # nothing is lost
    assert Observations.from_file(path).values.tolist() == [4, 1]


def test_bad_first_line_is_no_header(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("12,7,abc\n1,2,3\n")
    with pytest.raises(DataError, match=r"ratings\.csv, line 1: value 'abc' is not a number: 12,7,abc"):
        Observations.from_file(path)
    for nothing in ("", "NA", "null", "?"):
        path.write_text(f"ann,x,{nothing}\nbob,y,3\n")
        with pytest.raises(DataError, match=rf"line 1: value '{re.escape(nothing)}' is not a number"):
            Observations.from_file(path)


def test_a_header_whose_value_is_called_0(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("user,item,0\n1,4,2\n7,5,1\n")  # frame.groupby(["user", "item"]).size().to_csv(path)
    check(Observations.from_file(path), [1, 7], [4, 5], [2, 1])
    path.write_text("ann,x,0\nbob,7,3\n")
    check(Observations.from_file(path), ["ann", "bob"], ["x", "7"], [0, 3])
    path.write_text("ann,x,4.5\n7,5,1\n8,6,2\n")
    check(Observations.from_file(path), ["ann", "7", "8"], ["x", "5", "6"], [4.5, 1, 2])
    path.write_text("ann,x,nan\n7,5,1\n")
    with pytest.raises(DataError, match=r"counts\.csv, line 1: value 'nan' is not finite"):
        Observations.from_file(path)


def test_duplicates_in_a_file(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("5,7,1\n5,7,2\n6,7,3\n")
    with pytest.raises(DataError, match=r"1 duplicate\(s\), for example at row 5, column 7"):
        Observations.from_file(path)
    check(Observations.from_file(path, duplicates="mean"), [5, 6], [7, 7], [1.5, 3])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", r"empty\.csv: the file is empty"),
        ("blank.csv", b"\n \n", r"blank\.csv: the file is empty"),
        ("header.csv", b"user,item,rating\n", "empty: 0 rows"),
        ("two.csv", b"1,2\n", r"two\.csv, line 1: no delimiter gives 3 fields: 1,2"),
        ("latin.csv", "é,1,2\n".encode("latin-1"), r"latin\.csv: not UTF-8 text"),
        (
            "cut.csv.gz",
            gzip.compress(b"1,2,3\n" * 99, mtime=0)[:-12],
            r"cut\.csv\.gz: cannot be read: .*end-of-stream",
        ),
        ("not.csv.gz", b"1,2,3\n", r"not\.csv\.gz: cannot be read: Not a gzipped file"),
        ("bad.npy", b"abc", r"bad\.npy: cannot be read"),
        ("bad.npz", b"abc", r"bad\.npz: cannot be read"),
        ("bad.mtx", b"abc", r"bad\.mtx: cannot be read"),
        ("a.xlsx", b"", r"a\.xlsx: unknown kind of file '\.xlsx'; allowed are \.csv, .*\.npz"),
        ("a.npy.gz", b"", r"a\.npy\.gz: unknown kind of file"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        Observations.from_file(tmp_path / name)


def test_no_file(tmp_path):
    with pytest.raises(DataError, match=r"no such file: .*none\.csv"):
        observations(tmp_path / "none.csv")
    with pytest.raises(DataError, match="is a directory"):
        observations(tmp_path)
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n1,2,3\n")
    with pytest.raises(DataError, match=r"no column 'stars'; the columns are \['user', 'item', 'rating'\]"):
        Observations.from_file(path, value="stars")


# -- other files


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "ratings.parquet"
    table = pyarrow.table({"time": [1, 2, 3, 4], "user": USERS, "item": ITEMS, "rating": VALUES})
    parquet.write_table(table, path, row_group_size=2)
    check(Observations.from_file(path, row="user", col="item", value="rating"))
    parquet.write_table(table.slice(0, 0), path)
    with pytest.raises(DataError, match=r"^ratings\.parquet: empty"):
        Observations.from_file(path, row="user", col="item", value="rating")
    path.write_bytes(b"abc")
    with pytest.raises(DataError, match=r"ratings\.parquet: cannot be read"):
        Observations.from_file(path)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    def refuse(name, *arguments, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", refuse)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(DataError, match=r"a\.parquet: reading Parquet needs pyarrow: pip install pyarrow"):
        Observations.from_file(tmp_path / "a.parquet")


X = np.array([[0, 2.5, 0], [1, 0, -3]])


def test_matrix_market(tmp_path):
    path = tmp_path / "x.mtx"
    scipy.io.mmwrite(path, sp.coo_array(X))
    zipped = tmp_path / "x.mtx.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    want = Observations.from_sparse(sp.coo_array(X), absent="zero").fingerprint()
    for file in (path, zipped):
        assert Observations.from_file(file, absent="zero").fingerprint() == want
    scipy.io.mmwrite(path, X)
    assert not Observations.from_file(path).is_sparse


def test_numpy_and_scipy_files(tmp_path):
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    V = Observations.from_file(tmp_path / "x.npy")
    assert not V.is_sparse and V.dense.dtype == np.float32 and V.stored == 6
    with pytest.raises(DataError, match="absent='zero' is for sparse data"):
        Observations.from_file(tmp_path / "x.npy", absent="zero")
    sp.save_npz(tmp_path / "x.npz", sp.csc_array(X))
    V = Observations.from_file(tmp_path / "x.npz", absent="zero")
    assert V.stored == 3 and V.size == 6
    np.savez(tmp_path / "y.npz", X=X)
    with pytest.raises(DataError, match=r"y\.npz: neither saved by psgld nor by scipy.*it holds X"):
        Observations.from_file(tmp_path / "y.npz")


@pytest.mark.parametrize("absent", [None, "unobserved", "zero"])
def test_save(tmp_path, absent):
    V = Observations.from_chunks([(["b", "a"], [5, 6], np.ones(2, np.float32))], absent=absent)
    path = tmp_path / "v.npz"
    V.save(path)
    W = Observations.from_file(path)
    assert repr(W) == repr(V) and W.fingerprint() == V.fingerprint()
    assert (W.absent, W.absent_chosen) == (V.absent, V.absent_chosen)
    assert Observations.from_file(path, absent="zero").size == 4
    dense = Observations.from_dense(X)
    dense.save(path)
    np.testing.assert_array_equal(Observations.from_file(path).dense, X)
    for name, message in (
        (tmp_path / "v", "ends in .npz"),
        (tmp_path / "v.csv", "ends in .npz"),
        (None, "str or"),
    ):
        with pytest.raises(DataError, match=message):
            V.save(name)


def test_leading_zeros_are_part_of_a_label(tmp_path):
    path = tmp_path / "zip.csv"
    path.write_text("zip,item,value\n00501,1,2.0\n501,2,3.0\n10001,1,4.0\n")
    V = Observations.from_file(path)
    assert V.row_labels.tolist() == ["00501", "10001", "501"]
    assert V.values.tolist() == [2.0, 4.0, 3.0]


# -- Matrix Market


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("dense", [False, True])
def test_matrix_market_is_what_scipy_reads(symmetry, dense, tmp_path):
    x = np.random.default_rng(0).normal(size=(5, 5))
    x[2, 3] = x[3, 2] = 0
    x = {"general": x, "symmetric": x + x.T, "skew-symmetric": x - x.T}[symmetry]
    scipy.io.mmwrite(
        tmp_path / "x.mtx", x if dense else sp.coo_matrix(x), comment="two\nlines", symmetry=symmetry
    )
    got, expected = read_market(tmp_path / "x.mtx"), scipy.io.mmread(tmp_path / "x.mtx")
    assert sp.issparse(got) is not dense and sp.issparse(expected) is not dense
    got, expected = (a if dense else a.toarray() for a in (got, expected))
    np.testing.assert_array_equal(got, expected)


def test_matrix_market_patterns_and_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("psgld.data.matrix_market._LINES", 2)
    head = "%%MatrixMarket matrix coordinate pattern general\n%\n\n3 4 3\n"
    with gzip.open(tmp_path / "x.mtx.gz", "wt") as file:
        file.write(head + "1 1\n\n3 4\n2 2")
    assert read_market(tmp_path / "x.mtx.gz").toarray().nonzero()[1].tolist() == [0, 1, 3]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_matrix_market_with_comments_in_another_encoding(encoding, tmp_path):
    text = "%%MatrixMarket matrix coordinate real general\n% by José\n2 2 1\n1 2 3\n"
    (tmp_path / "x.mtx").write_bytes(text.encode(encoding))
    assert read_market(tmp_path / "x.mtx").toarray().tolist() == [[0, 3], [0, 0]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("coordinate real general\n3 3 1\n1 1 3\x7f", "could not convert"),  # SciPy's reader crashes
        ("coordinate real general\n3 3 2\n1 1 3\n", "1 entries, expected 2"),
        ("coordinate real general\n3 3 1\n1 4 3\n", "column indices must lie in 1 to 3, got 4 to 4"),
        ("coordinate real general\n3 3 1\n0 1 3\n", "row indices must lie in 1 to 3, got 0 to 0"),
        ("coordinate real symmetric\n3 4 1\n1 1 3\n", "a symmetric matrix must be square, got 3 × 4"),
        ("coordinate complex general\n3 3 1\n1 1 3 0\n", "'complex' in the first line"),
        ("array pattern general\n1 1\n1\n", "cannot be a pattern"),
        ("array real general\n1000000 1000000\n1\n", "expected 1000000000000"),
        ("array real general\n", "the sizes are"),
        ("array", "the first line must be"),
    ],
)
def test_matrix_market_that_is_damaged(content, words, tmp_path):
    (tmp_path / "x.mtx").write_text("%%MatrixMarket matrix " + content)
    with pytest.raises(DataError, match=rf"x\.mtx: cannot be read: .*{words}"):
        Observations.from_file(tmp_path / "x.mtx")


@pytest.mark.parametrize(
    "line",
    ["07,1,2", "1,2", "1,x,2", '"1",2,3', "1,2,", "1,2,nan", "1,2,inf", "1,2,1e400", "1,2,0x1", "1,2,3e", " ",
     "9999999999999999999,2,3", "1,2,0.12345678901234567", "1,-0,3", "1\r2,3,4", "1,2,--3", "1,2,."],
)  # fmt: skip
def test_lines_that_are_not_plain_are_left_to_the_other_reader(line):
    assert _core.parse_entries(f"1,2,3\n{line}\n", ",", [0, 1, 2], 4) is None


def test_plain_lines_are_read_to_the_last_bit():
    rng = np.random.default_rng(0)
    texts = [
        f"{x:.{d}g}" for x, d in zip(10 ** rng.uniform(-6, 12, 2000), rng.integers(1, 12, 2000), strict=True)
    ]
    texts += ["-1.5", "0", "-0.0", "7.", ".5", "1e22", "25E-3", "1e+2"]
    labels = rng.integers(-(10**17), 10**17, len(texts))
    text = "\r\n".join(f"x::{j}::{v}::{-j}::more" for j, v in zip(labels, texts, strict=True))
    rows, cols, values = _core.parse_entries("\n" + text, "::", [3, 1, 2], 5)
    assert _core.parse_entries(text, "::", [3, 1, 2], 4) is None
    assert np.array_equal(rows, -labels) and np.array_equal(cols, labels)
    assert values.tolist() == [float(v) for v in texts]


# -- errors name the file


def test_errors_about_the_entries_name_the_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "header.csv").write_text("user,item,rating\n")
    (tmp_path / "twice.csv").write_text("u,i,1\nu,i,2\n")
    nulls = pyarrow.table({"row": ["u", None], "col": ["i", "j"], "value": [1.0, 2.0]})
    parquet.write_table(nulls, tmp_path / "null.parquet")
    for name, words in (
        ("header.csv", "empty: 0 rows"),
        ("twice.csv", "1 duplicate"),
        ("null.parquet", "1 null"),
    ):
        with pytest.raises(DataError, match=rf"^{name}: {words}"):
            observations(tmp_path / name)
        with pytest.raises(DataError, match=rf"^{name}: {words}"):
            shard(tmp_path / name, tmp_path / "shards", 1)


@pytest.mark.parametrize("column", ["u", "v"])
def test_a_type_that_only_polars_has(column):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"u": [1, 2], "i": ["x", "y"], "v": [3.0, 4.0]})
    frame = frame.with_columns(polars.col(column).cast(polars.Int128))
    with pytest.raises(DataError, match=f"column '{column}' of Int128 .* cast it to Int64"):
        observations(frame)


# -- columns by name


TABLE = {"id": [9, 9, 9], "film": [1, 2, 1], "who": ["a", "a", "b"], "stars": [5.0, 3.0, 4.0]}
NAMED = {"row": "who", "column": "film", "value": "stars"}


@pytest.mark.parametrize("kind", ["frame", "chunks", "csv", "parquet"])
def test_columns_are_named_in_observations(kind, tmp_path):
    frame = pandas.DataFrame(TABLE)
    given = {"frame": frame, "chunks": iter([frame[:2], frame[2:]])}.get(kind, tmp_path / f"t.{kind}")
    if kind in ("csv", "parquet"):
        getattr(frame, f"to_{kind}")(given, index=False)
    data = psgld.observations(given, **NAMED)
    assert data.row_labels.tolist() == ["a", "b"] and data.col_labels.tolist() == [1, 2]
    assert data.values.tolist() == [5.0, 3.0, 4.0]


def test_columns_are_of_tables_only():
    with pytest.raises(psgld.DataError, match="V is a ndarray; omit them"):
        psgld.observations(np.eye(3), row="who")
    with pytest.raises(psgld.DataError, match="weights must name a column"):
        psgld.observations(pandas.DataFrame(TABLE), **NAMED, weights=[1.0, 2.0, 3.0])


def test_surplus_columns_without_a_header(tmp_path):
    """Unix times at the end are left out without a word, as under their name; others with a warning."""
    (tmp_path / "u.data").write_text("1\t7\t5\t881250949\n2\t7\t3\t891717742\n")
    assert psgld.observations(tmp_path / "u.data").stored == 2
    (tmp_path / "w.csv").write_text("1,7,5,0.5\n2,7,3,1\n")
    with pytest.warns(psgld.PsgldWarning, match="4 columns and no header; .* read from columns 0, 1, 2"):
        psgld.observations(tmp_path / "w.csv")
    assert psgld.observations(tmp_path / "w.csv", row=0, column=1, value=3).values.tolist() == [0.5, 1.0]
