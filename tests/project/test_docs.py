"""What the documents say is so: their code runs, their links lead somewhere, the manual names every public name."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import warnings
from pathlib import Path

import doc_commands
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
BLOCK = re.compile(
    r"^```(?P<language>python|sh|console)(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
STARTED = re.compile(r"# (?P<file>\w+\.py), started by: (?P<command>.*)\n")
"""The first line of a script: it is saved and started, instead of run here."""

NAMES_RUNS = ("command-line.md", "evaluate.md", "report.md", "shards.md")
"""Pages whose commands start from runs that they do not make."""


def blocks(
    page: Path, languages: tuple[str, ...] = ("python", "sh", "console")
) -> list[tuple[int, str, str]]:
    """Return the line, the language and the code of each block."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        assert not match["mark"].strip(), (
            f"{page.name}: a block is marked {match['mark']!r}; every block runs"
        )
        if match["language"] in languages:
            found.append((text.count("\n", 0, match.start("code")), match["language"], match["code"]))
    return found


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.filterwarnings("ignore:.* iterations will take about")  # on a busy machine
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=name)
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    """Blocks of a page run in order, in one namespace and one directory; commands on small data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    doc_commands.prepare(tmp_path)
    if page.name in NAMES_RUNS:
        doc_commands.runs(tmp_path)
    namespace = {"__name__": page.stem}
    for line, language, code in blocks(page):
        if (job := STARTED.match(code)) and not doc_commands.MISSING:
            Path(job["file"]).write_text(code)
            doc_commands.run(job["command"], False, capsys)
        elif job:
            pytest.skip(doc_commands.MISSING)
        elif language == "python":
            exec(compile("\n" * line + code, str(page), "exec"), namespace)
        else:
            for command, fails in doc_commands.commands(code, language == "console"):
                doc_commands.run(command, fails, capsys)


def test_gallery_shows_every_plot():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r"\]\(gallery/(\w+)\.png\)", page)
    assert set(shown) == set(re.findall(r'"(\w+)\.png"\)', page))
    assert set(shown) == set(psgld.plots.__all__) - {"least_level", "overview"}


def test_examples_were_found():
    assert len(blocks(ROOT / "README.md", ("python",))) >= 3
    assert sum(len(blocks(page, ("python",))) for page in MANUAL) >= 20
    assert sum(len(blocks(page, ("sh", "console"))) for page in PAGES) >= 20


def test_every_block_has_a_language_that_runs():
    """Or is text: what a program prints."""
    for page in PAGES:
        opened = re.findall(r"^```(\S+.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(opened) <= {"python", "sh", "console", "text"}, page.name


@pytest.mark.skipif(np.__version__.startswith("1."), reason="NumPy 2 shows numbers as np.float64(…)")
@pytest.mark.parametrize("module", MODULES)
def test_docstrings(module, tmp_path, monkeypatch):
    if ".accelerated." in module:
        pytest.importorskip("jax", reason="JAX is not installed")
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
