"""Pages, help texts, docstrings and messages use the terms of the field; what to avoid is listed with its remedy."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import psgld
from psgld.cli import make_parser
from psgld.cli.completion import subparsers

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "psgld"

_AMOUNT = (
    r"(?:one|ns|µs|ms|s|kB|MB|GB|bytes?|seconds?|numbers?|integers?|values?|booleans?|chunks?|files?|lines?|rows?|"
    r"draws|vectors?|entries|products?|messages?|samples|strips|precision|rate|sums?)"
)
_EACH = (
    r"(?:component|coefficient|iteration|cycle|pass|sweep|draw|chain|entry|cell|pair|row|column|strip|block|tile|part|"
    r"rank|thread|worker|second|line|label|word|command|recommendation)"
)

AVOID = {
    r"\b(?:runs?|ran|running|sent?d?) (?:chains )?away\b": "diverges, diverged",
    r"\b(?:go(?:es)?|went|going) on\b": "resume, continue",
    r"\bup again\b": "resume",
    r"\b(?:sets?|was|were|is|are) (?:it )?(?:set )?back to its\b": "is reset to",
    r"\bset back\b": "reset",
    r"\babreast\b": "concurrently",
    r"\bround and round\b": "repeated",
    r"\bwhole numbers?\b": "integers; quantised to int16",
    r"\b(?:is|are|was|were) (?:then )?watched\b": "is monitored",
    rf"\b{_AMOUNT} an? {_EACH}\b": "per …",
    r"\bat every moment\b": "at any time",
    r"\bfit for JSON\b": "serialisable as JSON",
    r"\bhangs? on\b": "is a function of",
    r"\bat (?:its|their) word\b": "is validated",
    r"\bwithout a word\b": "without a message",
    r"\bburnt[- ]in\b": "after burn-in",
    r"\bpictures?\b": "plot",
    r"\bmend(?:s|ed)?\b": "fix, repair",
    r"\bcarr(?:y|ies) (?:a|the|each) predictions?\b": "explains",
    r"\bpages? to pass on\b": "to share",
    r"\bat hand\b": "available",
    r"\bare no (?:counts|ratings|numbers)\b": "are not counts",
    r"\balways saying\b": "always predicting",
    r"(?:^|[.:;] )Of (?:a|an|the) \w+, ": "noun first: 'Each rank keeps … of a draw'",
}
"""Phrase to avoid (a regular expression) and what to write instead. The list grows."""

PAGES = [
    ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
]
PAGES += sorted((ROOT / "docs").glob("*.md"))


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither code nor console output, with their numbers."""
    code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            code = not code
        elif not code and not line.startswith("    "):
            yield number, line


def faults(text: str) -> list[str]:
    """Return what to avoid in a text, and what to write."""
    found = ((re.search(pattern, text), remedy) for pattern, remedy in AVOID.items())
    return [f"{match[0]!r}: write {remedy!r}" for match, remedy in found if match]


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages(page):
    text = " ".join(line for _, line in prose(page))
    assert not faults(re.sub(r"\s+", " ", text))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name)
def test_lines_of_prose_are_short(page):
    """At most 120 characters, but for tables, whose rows cannot be wrapped."""
    assert not [number for number, line in prose(page) if len(line) > 120 and not line.startswith("|")]


@pytest.mark.parametrize("file", sources(), ids=name)
def test_docstrings_and_messages(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    found = {fault: s for s in strings if isinstance(s, str) for fault in faults(re.sub(r"\s+", " ", s))}
    assert not found


@pytest.mark.parametrize("command", [None, *subparsers(make_parser())])
def test_help(command):
    parser = make_parser()
    text = (parser if command is None else subparsers(parser)[command]).format_help()
    assert not faults(re.sub(r"\s+", " ", text))


@pytest.mark.parametrize("public", sorted(set(psgld.__all__) - {"__version__"}))
def test_public_objects_have_a_docstring_in_these_terms(public):
    """Their own docstring, wherever they are; those of their methods are checked with their file."""
    text = inspect.getdoc(getattr(psgld, public))
    assert text
    assert not faults(re.sub(r"\s+", " ", text))


@pytest.mark.parametrize("pattern", AVOID)
def test_no_list_of_exceptions_is_stale(pattern):
    """The patterns compile, and miss the words that they recommend."""
    assert not re.search(pattern, AVOID[pattern])


@pytest.mark.parametrize(
    "bad",
    [
        "a chain that runs away",
        "chains ran away twice",
        "--resume goes on with the run",
        "one value a component",
        "9.7 ms an iteration",
        "the chains move abreast",
        "products of 16-bit whole numbers",
        "the entries at which a chain is watched",
        "The metadata is not taken at its word.",
        "Of a draw, each rank keeps its rows.",
    ],
)
def test_the_phrases_of_the_style_guide_are_found(bad):
    assert faults(bad)


@pytest.mark.parametrize(
    "good",
    [
        "one value per component",
        "An iteration updates one part.",
        "Each draw has a row per user.",
        "draw a row of W",
    ],
)
def test_plain_sentences_pass(good):
    assert not faults(good)
