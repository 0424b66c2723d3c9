"""Who may import whom; and `import psgld` imports nothing optional."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import psgld

PACKAGE = Path(psgld.__file__).parent
OPTIONAL = ("scipy", "pandas", "polars", "pyarrow", "matplotlib", "tqdm", "sklearn", "mpi4py", "zarr", "jax")

ROOMS = (
    "errors",
    "checks",
    "system",
    "data",
    "models",
    "datasets",
    "engines",
    "dynamics",
    "samplers",
    "runs",
    "storage",
    "posterior",
    "sample",
    "model_selection",
    "optimize",
    "sklearn",
    "tools",
    "cli",
    "__main__",
)
"""The rooms from the ground up: each may import from those before it, at the top of a file or inside a function."""

FILE_LINES, FUNCTION_LINES, TOP_LEVEL = 400, 60, 8


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path: Path) -> set[str]:
    """Return the absolute names of what a file imports: of `from a import b`, a.b if that is a module, else a."""
    inside = ("psgld", *path.relative_to(PACKAGE).with_suffix("").parts)
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) - node.level] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES or name == "psgld._core" else module for name in names}
    return found


def room(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "psgld"])
def test_rooms_import_downwards(name):
    allowed = {*ROOMS[: ROOMS.index(room(name)) + 1], "_core"}
    inside = {module for module in imports(MODULES[name]) if module.partition(".")[0] == "psgld"}
    wrong = {module for module in inside if module == "psgld" or room(module) not in allowed}
    assert not wrong, f"{name} must not import {sorted(wrong)}"


def test_every_room_has_its_place():
    assert {room(name) for name in MODULES if name != "psgld"} == set(ROOMS)


def test_no_module_imports_itself_in_a_circle():
    """Also not by imports inside functions."""
    graph = {name: {m for m in imports(path) if m in MODULES} - {name} for name, path in MODULES.items()}
    done: set[str] = set()
    while ready := {name for name, needs in graph.items() if name not in done and needs <= done}:
        done |= ready
    assert done == set(graph), f"circles among {sorted(set(graph) - done)}"


def test_the_corridor_is_short():
    assert len(list(PACKAGE.glob("*.py"))) <= TOP_LEVEL


@pytest.mark.parametrize("path", MODULES.values(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_and_functions_are_short(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0].end_lineno + 1 if ast.get_docstring(node) else node.body[0].lineno
            assert node.end_lineno - first + 1 <= FUNCTION_LINES, node.name


OUTSIDE = sorted(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "engines")
CONCRETE = {
    "Threads",
    "MPI",
    "Ranks",
    "Reference",
    "JAX",
    "ThreadedFactors",
    "RingFactors",
    "HoppingFactors",
    "CoreFactors",
    "ReferenceFactors",
    "AcceleratedFactors",
}


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_engines_are_asked_by_their_contract(path):
    """Nothing outside reaches the core through an engine, or asks which engine it is."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr == "core":
            assert ast.unparse(node) == "self.core", ast.unparse(node)  # a core of its own
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            named = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            assert not named & CONCRETE, ast.unparse(node)


ENGINES = [name for name in MODULES if room(f"{name}.") == "engines"]


@pytest.mark.parametrize("name", ENGINES)
def test_engines_do_not_ask_which_source_it_is(name):
    """They ask `Source.on_disk`; a new kind of shards needs no change in an engine."""
    assert not {m for m in imports(MODULES[name]) if m.startswith("psgld.data.shards")}


def test_concrete_engines_are_known_by_name():
    """A new one joins the list above."""
    from psgld.engines import Engine, Factors

    def below(kind):
        return {kind}.union(*map(below, kind.__subclasses__()))

    found = {kind.__name__ for kind in below(Engine) | below(Factors) if kind.__module__.startswith("psgld.")}
    assert found <= CONCRETE | {"Engine", "Factors", "DistributedEngine"}


def test_mpi_is_one_file():
    users = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if "mpi4py" in imports(path)}
    assert users == {"engines/distributed/mpi.py"}


def test_jax_is_one_folder():
    users = {
        path.parent.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*.py")
        if any(name.partition(".")[0] == "jax" for name in imports(path))
    }
    assert users == {Path("engines/accelerated")}


def test_names_are_resolved():
    found = imports(PACKAGE / "engines" / "threads.py")
    assert {"psgld._core", "psgld.errors", "psgld.data.partition", "numpy"} <= found


LIBRARY = sorted(p for p in PACKAGE.rglob("*.py") if not {"cli", "cli.py", "__main__.py"} & set(p.parts))


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_effects_on_the_process(path):
    """No global random numbers, no root logger, no print but in the command line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("print", "np.random.seed", "random.seed", "logging.basicConfig"), called


def test_import_is_light():
    code = f"import sys, psgld; print(*(m for m in {OPTIONAL} if m in sys.modules))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(PACKAGE.parent), *sys.path]))}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_public_names_exist():
    assert len(set(psgld.__all__)) == len(psgld.__all__)
    for name in psgld.__all__:
        assert hasattr(psgld, name), name


def test_only_likelihoods_know_their_powers():
    """What a likelihood is, its object says: nobody else looks at β, in either language."""
    inside = PACKAGE / "models" / "likelihoods"
    for path in MODULES.values():
        names = {
            node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
        }
        assert "beta" not in names or inside in path.parents, path
    core = Path(__file__).parents[2] / "core"
    for path in [*core.rglob("*.hpp"), *core.rglob("*.cpp")]:
        if path.parent.name != "likelihood":
            assert not re.search(r"\bbeta\s*[=!<>]=|\.beta\b|\bFamily::(?!k[A-Z])", path.read_text()), path
