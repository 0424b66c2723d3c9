"""`_core.pyi` is what `nanobind.stubgen` reads from the compiled core."""

import ast
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _statements(text: str) -> list[str]:
    return [ast.unparse(node) for node in ast.parse(text).body]


def test_the_stub_is_generated_from_the_bindings() -> None:
    pytest.importorskip("nanobind", reason="nanobind is needed to generate the stub")
    generated = runpy.run_path(str(ROOT / "core/bind/stub.py"))["generate"]()
    stored = (ROOT / "src/psgld/_core.pyi").read_text()
    assert _statements(stored) == _statements(generated), "run `make stubs`"


def test_parameters_have_names() -> None:
    """A parameter that the bindings do not name is called arg0: allowed in setters of properties only."""
    tree = ast.parse((ROOT / "src/psgld/_core.pyi").read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    setters = {id(f) for f in functions if any(isinstance(d, ast.Attribute) for d in f.decorator_list)}
    unnamed = [f.name for f in functions if f.args.posonlyargs and id(f) not in setters]
    assert functions and not unnamed
