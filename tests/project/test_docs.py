"""What the documents say is so: their code runs, their links lead somewhere, the manual names every public name."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import psgld
from psgld.models import LIKELIHOODS

ROOT = Path(__file__).parents[2]
MANUAL = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")] + MANUAL
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(psgld.__path__, "psgld.")
    if not module.name.endswith(("__main__", "_core"))
)
BLOCK = re.compile(r"^```python(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Return the line and the code of each block that is meant to run."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        mark = match["mark"].strip()
        assert mark in ("", "no-run"), f"{page.name}: a block is marked {mark!r}"
        if not mark:
            found.append((text.count("\n", 0, match.start("code")), match["code"]))
    return found


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=name)
def test_examples_run(page, tmp_path, monkeypatch):
    """The blocks of a page run in order, in one namespace, in a directory with nothing but ratings."""
    monkeypatch.chdir(tmp_path)
    write_ratings(tmp_path / "ratings.csv")
    namespace = {"__name__": page.stem}
    for line, code in blocks(page):
        exec(compile("\n" * line + code, str(page), "exec"), namespace)


def write_ratings(path: Path) -> None:
    V = psgld.datasets.ratings(users=100, items=60, entries=2000).V
    rows, cols, values = V.entries(np.arange(V.stored))
    names = V.row_labels[rows], V.col_labels[cols]
    lines = (f"{i},{j},{v:g}" for i, j, v in zip(*names, values, strict=True))
    path.write_text("user,item,rating\n" + "\n".join(lines) + "\n")


def test_examples_were_found():
    assert len(blocks(ROOT / "README.md")) >= 3
    assert sum(len(blocks(page)) for page in MANUAL) >= 20


@pytest.mark.skipif(np.__version__.startswith("1."), reason="NumPy 2 shows numbers as np.float64(…)")
@pytest.mark.parametrize("module", MODULES)
def test_docstrings(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "verdict:")  # examples are short
        failed, _ = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page):
    """Relative links lead to files, and to headings if they name one."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        path, _, heading = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.is_relative_to(ROOT) and other.is_file(), target
        if heading:
            assert heading in headings(other), target


def headings(page: Path) -> set[str]:
    lines = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-") for line in lines}


def test_manual_names_every_public_name():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    for target in shown:
        module, _, attribute = target.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), target
    missing = set(psgld.__all__) - {"__version__"} - {target.rpartition(".")[2] for target in shown}
    assert not missing, f"docs/api.md has no ::: line for {sorted(missing)}"


def test_readme_maps_every_public_name():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.split("## API map")[1].split("\n## ")[0]
    missing = set(psgld.__all__) - {"__version__"} - set(re.findall(r"`(\w+)`", table))
    assert not missing, f"README's API map lacks {sorted(missing)}"


@pytest.mark.parametrize("page", ["models.md", "command-line.md"])
def test_every_likelihood_is_where_users_look_for_its_name(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    missing = [name for name in LIKELIHOODS if not re.search(rf'["`]{name}["`]', text)]
    assert not missing, f"docs/{page} does not name the likelihoods {missing}"


def test_every_page_is_in_the_manual():
    nav = (
        (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("nav:")[1].split("\nmarkdown_extensions:")[0]
    )
    assert set(re.findall(r"[\w-]+\.md", nav)) == {page.name for page in MANUAL}


def test_architecture_is_a_page():
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 75


def test_the_manual_names_every_file():
    """Files of the package and of the core that the page does not mention would be found by nobody."""
    text = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
    files = [p for p in (ROOT / "src" / "psgld").rglob("*.py") if "cli" not in p.parts]
    package = {p.name for p in files} - {"__init__.py", "__main__.py"}
    core = {p.name for p in (ROOT / "core").rglob("*.?pp")} - {"kernels.hpp", "chain.hpp", "scratch.hpp"}
    missing = {file for file in package | core if file not in text}
    assert not missing, f"docs/inside.md does not name {sorted(missing)}"
