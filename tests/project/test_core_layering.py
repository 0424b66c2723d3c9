"""The rooms of the compiled core: who includes whom, how long files are, where instructions are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core"
FILES = sorted(path for path in CORE.rglob("*") if path.suffix in (".hpp", ".cpp"))

ROOMS = ("simd", "common", "random", "likelihood", "data", "langevin", "gibbs", "bpmf", "predict", "bind")
"""From the ground up: a file includes files of its own room and of those before it."""

FILE_LINES = 400
INSTRUCTIONS = re.compile(
    r"\b__(?:AVX|SSE|ARM_|AES)\w*|\b_mm\d*_\w+|\b__m(?:128|256|512|mask\d+)|\b__builtin_ia32_|\bv(?:aes|eor|dup|ld)\w*q_u?\d"
)


def name(path: Path) -> str:
    return path.relative_to(CORE).as_posix()


def code(path: Path) -> str:
    return re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))


def included(path: Path) -> set[str]:
    return set(re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M))


def test_every_room_has_its_place():
    assert {path.parent.name for path in FILES} == set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_rooms_include_downwards(path):
    allowed = ROOMS[: ROOMS.index(path.parent.name) + 1]
    wrong = {file for file in included(path) if file.split("/")[0] not in allowed}
    assert not wrong, f"{name(path)} must not include {sorted(wrong)}"
    assert all((CORE / file).is_file() for file in included(path)), "headers are named from core/ on"


def test_no_header_includes_itself_in_a_circle():
    graph = {name(path): included(path) for path in FILES}
    done: set[str] = set()
    while ready := {file for file, needs in graph.items() if file not in done and needs <= done}:
        done |= ready
    assert done == set(graph), f"circles among {sorted(set(graph) - done)}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= FILE_LINES


@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name != "simd"], ids=name)
def test_instructions_are_named_under_simd_only(path):
    found = set(INSTRUCTIONS.findall(code(path))) | set(re.findall(r"immintrin|arm_neon", code(path)))
    assert not found, f"{name(path)} names {sorted(found)}; put them behind a function under core/simd/"


def test_instructions_are_recognised():
    assert INSTRUCTIONS.findall(code(CORE / "simd" / "simd.hpp"))
    assert INSTRUCTIONS.findall(code(CORE / "simd" / "aes.hpp"))
