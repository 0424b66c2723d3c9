"""`python -m benchmarks.fuzzing`: bad input by the hundred thousand; nothing but a clear error may come of it.

Each target makes one input from a random generator and tries it. A finding is whatever is neither a good answer nor
one of the errors that users are meant to meet: another exception, a traceback, several lines where one is promised, a
crash of the process, more than `PATIENCE` seconds. An input is known by its target and its number, and
`--only TARGET --first NUMBER --inputs 1` tries it again.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gzip
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

import psgld
from psgld.cli import main, make_parser
from psgld.cli.completion import subparsers

PATIENCE = 30
SCRATCH = next((folder for folder in ("/dev/shm",) if os.access(folder, os.W_OK)), None)
"""Where the files are: in memory, where there is such a folder."""
_LOT = 1000
RUNS = ("counts.npz", "ratings.npz", "run.zarr", "counts.zarr")
ODD = (
    *(
        "",
        " ",
        "0",
        "-0",
        "1",
        "2",
        "-1",
        "1.5",
        "1e3",
        "1e999",
        "-inf",
        "nan",
        "NaN",
        "None",
        "x",
        "ü☃",
        "\x00",
        "\ufeff",
    ),
    *(
        "9" * 18,
        "9" * 25,
        "-" + "9" * 25,
        "0x10",
        "007",
        "1_000",
        "١",
        '"',
        "'",
        "a,b",
        "#",
        "%",
        "::",
        "a" * 300,
    ),
)
"""Fields that readers trip over."""


# -- what is damaged -------------------------------------------------------------------------------------------------


class Originals:
    """Good files, made once in a folder: posteriors, stores, tables. `work` is for the bad ones."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        quick: dict[str, Any] = {"draws": 3, "tune": 10, "thin": 1, "chains": 2, "progress": False}
        rng = np.random.default_rng(0)
        counts = psgld.sample(
            rng.poisson(4.0, (6, 5)), psgld.FactorModel(2, "poisson"), track=([0], [1]), **quick
        )
        i, j = np.nonzero(rng.random((7, 6)) < 0.6)
        values = 3.0 + rng.normal(size=len(i))
        data = psgld.Observations.from_coo(i, j, values, (7, 6), row_labels=list("abcdefg"))
        ratings = psgld.sample(
            data, psgld.FactorModel(2, "gaussian", bias=True), store=folder / "run.zarr", **quick
        )
        counts.save(folder / "counts.npz")
        ratings.save(folder / "ratings.npz")
        counts.save(folder / "counts.zarr")
        self.posteriors = [(folder / name).read_bytes() for name in ("counts.npz", "ratings.npz")]
        self.stores = [folder / name for name in ("run.zarr", "counts.zarr")]
        self.files = {store: sorted(p for p in store.rglob("*") if p.is_file()) for store in self.stores}
        self.tables = _tables(folder)
        self.argument_files = sorted(str(p) for p in folder.iterdir() if p != self.work)


def _tables(folder: Path) -> dict[str, bytes]:
    """Write one table in every form that is read; return them by suffix."""
    import pyarrow
    import scipy.io
    import scipy.sparse
    from pyarrow import parquet

    rows, cols = ["ann", "bob", "ann", "cy"], ["x", "x", "y", "z"]
    values = [1.0, 2.5, 4.0, 3.0]
    lines = [f"{r},{c},{v}" for r, c, v in zip(rows, cols, values, strict=True)]
    text = "\n".join(["user,item,rating", *lines, ""])
    files = {
        ".csv": text.encode(),
        ".tsv": text.replace(",", "\t").encode(),
        ".dat": text.replace(",", "::").encode(),
        ".txt": "\n".join(f"{n} {n % 3} {n + 1}" for n in range(9)).encode(),
        ".csv.gz": gzip.compress(text.encode()),
    }
    sparse = scipy.sparse.coo_matrix((values, ([0, 1, 0, 2], [0, 0, 1, 2])))
    scipy.io.mmwrite(folder / "t.mtx", sparse)
    scipy.sparse.save_npz(folder / "t.npz", sparse.tocsr())
    np.save(folder / "t.npy", np.array([[1.0, np.nan], [2.0, 3.0], [0.5, 1.0]]))
    parquet.write_table(pyarrow.table({"user": rows, "item": cols, "rating": values}), folder / "t.parquet")
    for suffix, content in files.items():
        (folder / f"t{suffix}").write_bytes(content)
    return files | {s: (folder / f"t{s}").read_bytes() for s in (".mtx", ".npz", ".npy", ".parquet")}


def damaged(rng: random.Random, whole: bytes, other: bytes = b"") -> bytes:
    """Return bytes with one to four places flipped, cut out, doubled, swapped, overwritten, or taken from elsewhere."""
    content = bytearray(whole)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        n = len(content)
        if not n:
            break
        at, length = rng.randrange(n), rng.choice((1, 1, 2, 4, 8, 32))
        match rng.randrange(8):
            case 0:
                content[at] ^= 1 << rng.randrange(8)
            case 1:
                content[at] = rng.choice((0, 10, 32, 127, 255, rng.randrange(256)))
            case 2:
                del content[at:]
            case 3:
                del content[at : at + length]
            case 4:
                content[at:at] = content[rng.randrange(n) :][:length]
            case 5:
                content[at:at] = rng.randbytes(length)
            case 6:
                b = rng.randrange(n)
                content[at : at + length], content[b : b + length] = (
                    content[b : b + length],
                    content[at : at + length],
                )
            case _:
                source = other or whole
                start = rng.randrange(len(source))
                content[at : at + length] = source[start : start + length]
    return bytes(content)


def nonsense(rng: random.Random, value: Any) -> Any:
    """Return JSON with something else somewhere in it."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {n: v for n, v in value.items() if n != name}
        return {**value, name: nonsense(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], nonsense(rng, value[at]), *value[at + 1 :]]
    return rng.choice(
        (None, True, -1, 0, 1, 3, 2**31, 2**63, 1e300, "", "x", "gaussian", [], [1], {}, {"name": "x"})
    )


def odd_array(rng: random.Random, a: np.ndarray) -> np.ndarray:
    """Return another array instead of one."""
    match rng.randrange(7):
        case 0:
            return a.reshape(-1)
        case 1:
            return a[..., :-1] if a.ndim else np.zeros(3)
        case 2:
            return a.astype(
                rng.choice(("float16", "float64", "int64", "uint8", "bool", "complex64", "S5", "U3"))
            )
        case 3:
            return a[None]
        case 4:
            return np.array(rng.choice((0, -1, 2**40, np.nan, "x")))
        case 5:
            return np.full_like(a, rng.choice((0, 1, 100))) if a.dtype.kind != "U" else a[::-1]
        case _:
            return np.swapaxes(a, 0, -1) if a.ndim else a


# -- targets: one input each -----------------------------------------------------------------------------------------


def use(path: Path) -> None:
    """Load a posterior and ask it something: neither may fail but with an error of psgld's."""
    try:
        post = psgld.load(path)
        repr(post)
        post.summary()
        post.predict(post.row_labels[:1] if post.row_labels is not None else [0]).interval(0.9)
        post.recommend(None, 1, exclude_seen=post.seen is not None)
    except psgld.PsgldError as error:
        one_line(str(error))


def one_line(message: str) -> None:
    """An error is one line of a readable length."""
    if "\n" in message or len(message) > 2000:
        raise AssertionError(f"a message of {len(message)} characters: {message[:300]!r}")


def load_file(rng: random.Random, have: Originals) -> None:
    """Load an `.npz` whose bytes are damaged."""
    path = have.work / "bad.npz"
    one = rng.randrange(len(have.posteriors))
    path.write_bytes(damaged(rng, have.posteriors[one], have.posteriors[1 - one]))
    use(path)


def load_arrays(rng: random.Random, have: Originals) -> None:
    """Load an `.npz` that is sound, of arrays that are not what they should be."""
    one = rng.randrange(len(have.posteriors))
    with np.load(io.BytesIO(have.posteriors[one])) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    for _ in range(rng.choice((1, 1, 2))):
        name, other = rng.choice(sorted(arrays)), rng.choice(sorted(arrays))
        match rng.randrange(5):
            case 0:
                del arrays[name]
            case 1:
                arrays[name], arrays[other] = arrays[other], arrays[name]
            case 2:
                arrays["header"] = np.frombuffer(json.dumps(nonsense(rng, header)).encode(), np.uint8)
            case _:
                with np.errstate(all="ignore"):
                    arrays[name] = _or_same(odd_array, rng, arrays[name])
        if not arrays:
            break
    path = have.work / "bad.npz"
    np.savez(path, **arrays)
    use(path)


def _or_same(change: Callable[..., Any], rng: random.Random, a: Any) -> Any:
    try:
        return change(rng, a)
    except (ValueError, TypeError, OverflowError):
        return a


def load_store(rng: random.Random, have: Originals) -> None:
    """Load a store in which one file is damaged, gone, or another's; or whose header is nonsense."""
    store = rng.choice(have.stores)
    file = rng.choice(have.files[store])
    whole = file.read_bytes()
    match rng.randrange(4):
        case 0 if file.name == "zarr.json":
            new: bytes | None = json.dumps(nonsense(rng, json.loads(whole))).encode()
        case 1:
            new = rng.choice((None, b"", rng.choice(have.files[store]).read_bytes()))
        case _:
            new = damaged(rng, whole)
    try:
        file.unlink()
        if new is not None:
            file.write_bytes(new)
        use(store)
    finally:
        file.write_bytes(whole)


def _read(have: Originals, suffix: str, content: bytes) -> None:
    path = have.work / f"bad{suffix}"
    path.write_bytes(content)
    try:
        data = psgld.Observations.from_file(path)
        data.entries(np.arange(data.stored))
    except psgld.PsgldError as error:
        one_line(str(error))


def read_damaged(rng: random.Random, have: Originals, *suffixes: str) -> None:
    """Read a file whose bytes are damaged, or random."""
    suffix = rng.choice(suffixes)
    whole = have.tables[suffix]
    content = damaged(rng, whole) if rng.random() < 0.85 else rng.randbytes(rng.randrange(200))
    _read(have, suffix, content)


def read_text(rng: random.Random, have: Originals) -> None:
    """Read delimited text of odd fields, with odd lines."""
    suffix = rng.choice((".csv", ".tsv", ".dat", ".txt", ".data", ".csv.gz"))
    delimiter = rng.choice((",", "\t", ";", "|", "::", " ", "  ", ", "))
    width, fields = rng.choice((1, 2, 3, 3, 3, 4)), (*ODD, "a", "b", "3", "4.5", "12", "7")
    lines = []
    for _ in range(rng.randrange(7)):
        n = width if rng.random() < 0.9 else rng.randrange(5)
        lines.append(delimiter.join(rng.choice(fields) for _ in range(n)))
    text = rng.choice(("\n", "\n", "\r\n", "\r", "\n\n")).join(lines)
    content = text.encode(rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")), "replace")
    _read(have, suffix, gzip.compress(content) if suffix == ".csv.gz" else content)


def read_market(rng: random.Random, have: Originals) -> None:
    """Read a Matrix Market file of odd words."""
    kinds = (("matrix", "vector"), ("coordinate", "array"), ("real", "integer", "complex", "pattern"))
    head = ["%%MatrixMarket", *map(rng.choice, kinds), rng.choice(("general", "symmetric", "hermitian", "x"))]
    lines = [" ".join(head), *("% a comment" for _ in range(rng.randrange(2)))]
    number = lambda: rng.choice((*ODD[:20], "1", "2", "3", "3", "4"))  # noqa: E731
    lines += [" ".join(number() for _ in range(rng.choice((2, 3, 3, 3, 4)))) for _ in range(rng.randrange(6))]
    _read(have, ".mtx", "\n".join(lines).encode())


def command_line(rng: random.Random, have: Originals) -> None:
    """Run a command with odd arguments and files."""
    run_command(arguments(rng, have))


def run_command(argv: list[str]) -> None:
    """Run a command: exit code 0, 1 or 2, no traceback, and one line if the code is 2."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = main(argv)
        except SystemExit as stop:
            code = stop.code
    lines = [line for line in err.getvalue().splitlines() if not line.startswith("psgld: note: ")]
    if code not in (0, 1, 2) or "Traceback" in err.getvalue():
        raise AssertionError(f"{argv}: exit code {code}: {err.getvalue()[-500:]}")
    if code == 2 and argv and not (len(lines) == 1 and lines[0].startswith("psgld: error: ")):
        raise AssertionError(f"{argv}: {len(lines)} lines on stderr: {lines[:3]}")


def arguments(rng: random.Random, have: Originals) -> list[str]:
    """Return words that are nearly a command line."""
    commands = subparsers(make_parser())
    name = rng.choice(sorted(commands))
    if rng.random() < 0.03:
        return [rng.choice(ODD) for _ in range(rng.randrange(4))]
    bad = have.work / f"bad{rng.choice(list(have.tables))}"
    if rng.random() < 0.3:
        bad.write_bytes(damaged(rng, have.tables["".join(bad.suffixes)]))
    files = [*have.argument_files, str(bad), str(have.work), str(have.work / "no.csv")]
    words: list[str] = []
    for action in commands[name]._actions:
        if not action.option_strings:
            words += [
                _value(rng, action, files) for _ in range(1 if rng.random() < 0.95 else rng.randrange(3))
            ]
        elif action.dest != "help" and (action.required or rng.random() < 0.08):
            words.append(rng.choice(action.option_strings))
            if action.nargs != 0:
                words.append(_value(rng, action, files))
    if rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), rng.choice((*ODD, "--nonsense", "--help", "-")))
    if name in ("demo", "doctor"):
        words.append("--nonsense")  # they are right, and take seconds
    short = ["--draws", "3", "--tune", "5", "--chains", "1", "--threads", "1"] if name == "fit" else []
    return [name, *short, *words]


def _value(rng: random.Random, action: argparse.Action, files: list[str]) -> str:
    """Return a value for an argument: mostly of the right kind; never one that asks for hours of work."""
    if action.choices and rng.random() < 0.9:
        return str(rng.choice(list(action.choices)))
    if action.dest == "output":
        suffix = rng.choice((".npz", ".zarr", ".csv", ".parquet", ".nc", "", ".x"))
        return str(Path(files[-2]) / f"out{rng.randrange(3)}{suffix}")
    if action.dest == "run_file" and rng.random() < 0.6:
        return rng.choice([file for file in files if Path(file).name in RUNS])
    if action.dest == "rows":
        return rng.choice(("a", "b", "0", *ODD))
    if action.type is Path:
        return rng.choice(files if rng.random() < 0.95 else ODD)
    if action.type is int and action.dest != "seed":
        return rng.choice(("1", "2", "3") if rng.random() < 0.8 else ("0", "-1", "x", "", "1.5", "nan"))
    return rng.choice(("0.5", "1", "2", "a", "user", "row", "0", *ODD))


TARGETS: dict[str, tuple[int, Callable[[random.Random, Originals], None]]] = {
    "posterior, bytes": (20, load_file),
    "posterior, arrays": (10, load_arrays),
    "store": (10, load_store),
    "text, bytes": (15, lambda r, h: read_damaged(r, h, ".csv", ".tsv", ".dat", ".txt", ".csv.gz")),
    "text, fields": (15, read_text),
    "Parquet": (5, lambda r, h: read_damaged(r, h, ".parquet")),
    "Matrix Market": (5, lambda r, h: read_damaged(r, h, ".mtx")),
    "Matrix Market, words": (4, read_market),
    "NumPy and SciPy": (6, lambda r, h: read_damaged(r, h, ".npy", ".npz")),
    "command line": (10, command_line),
}
"""Shares of the inputs in percent, and what makes and tries one."""


# -- trying ----------------------------------------------------------------------------------------------------------


def attempt(target: str, number: int, have: Originals) -> str | None:
    """Try one input; return what went wrong, if anything did."""
    return guarded(lambda: TARGETS[target][1](random.Random(f"{target} {number}"), have))


def guarded(work: Callable[[], None]) -> str | None:
    """Do it; return what went wrong, if anything did."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), _patience():
            warnings.simplefilter("ignore")
            work()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:400]} ({Path(last.filename).name}:{last.lineno})"
    return None


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise AssertionError(f"no answer after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    # What does not come back to Python ends with the process, which counts as a crash.
    faulthandler.dump_traceback_later(3 * PATIENCE, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def work_through(target: str, first: int, inputs: int) -> None:
    """Try inputs in this process; print a line of JSON before what may crash, and for each finding."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        have = Originals(Path(folder) / "fuzz")
        out = sys.stdout
        for number in range(first, first + inputs):
            print(json.dumps({"try": number}), file=out, flush=True)
            if wrong := attempt(target, number, have):
                print(json.dumps({"wrong": number, "what": wrong}), file=out, flush=True)
            for left in have.work.glob("*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def run(target: str, first: int, inputs: int) -> tuple[int, list[str]]:
    """Try inputs in a process of their own, and in another after a crash; return how many, and the findings."""
    done, findings = 0, []
    while done < inputs:
        argv = [sys.executable, "-m", "benchmarks.fuzzing", "--worker", "--only", target]
        argv += ["--first", str(first + done), "--inputs", str(inputs - done)]
        ran = subprocess.run(argv, capture_output=True, text=True)
        records = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        tried = [r["try"] for r in records if "try" in r]
        findings += [f"{target} {r['wrong']}: {r['what']}" for r in records if "wrong" in r]
        if ran.returncode:
            where = f"{target} {tried[-1]}" if tried else target
            findings.append(f"{where}: crash, code {ran.returncode}: {ran.stderr[-300:]}")
            if not tried:
                break
        done += len(tried)
    return done, findings


def fuzz() -> int:
    """Try them all and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work_through(args.only, args.first, args.inputs)
        return 0
    shares = {args.only: 100} if args.only else {target: share for target, (share, _) in TARGETS.items()}
    lots = [
        lot
        for target, share in shares.items()
        for lot in _lots(target, args.first, args.inputs * share // 100)
    ]
    lots.sort(key=lambda lot: lot[1])  # something of every target first
    total, found, start = 0, 0, time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pending = {pool.submit(run, *lot): lot for lot in lots}
        for future in as_completed(pending):
            (target, first, _), (done, findings) = pending[future], future.result()
            total, found = total + done, found + len(findings)
            print(f"{target:<22} from {first:>6,}: {done:>6,} inputs, {len(findings)} findings", flush=True)
            for line in findings[:20]:
                print(f"  {line}", flush=True)
    print(f"all: {total:,} inputs, {found} findings, {time.perf_counter() - start:.0f} s")
    return 1 if found else 0


def _lots(target: str, first: int, inputs: int) -> list[tuple[str, int, int]]:
    """Cut the inputs of a target into lots for a process each."""
    last = first + inputs
    return [(target, at, min(_LOT, last - at)) for at in range(first, last, _LOT)]


if __name__ == "__main__":
    sys.exit(fuzz())
