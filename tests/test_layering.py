"""Who may import whom; and `import psgld` imports nothing optional."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import psgld

PACKAGE = Path(psgld.__file__).parent
OPTIONAL = ("scipy", "pandas", "polars", "pyarrow", "matplotlib", "tqdm", "sklearn", "mpi4py", "zarr")

FORBIDDEN = {  # a module or a folder: what it must not import, at the top of a file or inside a function
    "engines": {"models", "samplers", "metrics", "run", "sample", "record", "posterior", "probes"},
    "models": {"engines", "samplers", "data", "partition", "run", "sample", "record", "posterior", "_core"},
    "samplers": {"sample", "run", "record", "posterior"},
    "record": {"samplers", "sample", "run", "posterior"},
    "metrics": {"samplers", "sample", "run", "record", "posterior"},
    "data": {"models", "engines", "samplers", "partition", "sample", "posterior"},
    "readers": {"models", "engines", "samplers", "partition", "sample", "posterior"},
    "shards": {"models", "engines", "samplers", "sample", "run", "record", "posterior"},
    "partition": {"models", "engines", "samplers", "sample", "posterior"},
    "schedule": {"models", "engines", "samplers", "data", "sample", "posterior"},
    "step_size": {"models", "engines", "samplers", "data", "sample", "posterior"},
    "run": {"models", "engines", "samplers", "data", "sample", "posterior"},
    "reference": {"models", "engines", "samplers", "metrics", "sample", "_core"},
    "errors": {"models", "engines", "samplers", "data", "sample"},
}


def imports(path: Path) -> set[str]:
    """Return the absolute names of the modules that a file imports; `from a import b` gives a and a.b."""
    inside = ("psgld", *path.relative_to(PACKAGE).with_suffix("").parts)
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) - node.level] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def files(name: str) -> list[Path]:
    folder, module = PACKAGE / name, PACKAGE / f"{name}.py"
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [module]


def heads(names: set[str]) -> set[str]:
    """Return the first part below psgld of each name."""
    split = (name.split(".") for name in names)
    return {parts[1] for parts in split if parts[0] == "psgld" and len(parts) > 1}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_layers(name):
    for path in files(name):
        wrong = heads(imports(path)) & FORBIDDEN[name]
        assert not wrong, f"{path.relative_to(PACKAGE)} must not import {sorted(wrong)}"


def test_relative_names_are_resolved():
    assert "psgld.data" in imports(PACKAGE / "engines" / "threads.py")
    assert heads(imports(PACKAGE / "engines" / "threads.py")) >= {"_core", "data", "errors", "partition"}
    assert "engines" in heads(imports(PACKAGE / "sample.py"))
    assert "numpy" in imports(PACKAGE / "models" / "tweedie.py")


def test_every_layer_exists():
    for name in FORBIDDEN:
        assert all(path.exists() for path in files(name)), name


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
