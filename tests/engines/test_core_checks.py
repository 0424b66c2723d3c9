"""Every binding of the core × every array of indices, offsets or bounds that it takes × every way to be wrong.

What is wrong ends in an exception before anything is read, never in a signal. The table is in `core_cases.py`;
`test_every_binding_with_indices_has_a_case` fails for a new binding until it joins.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from core_cases import (
    KEY,
    MASK,
    POOL,
    SIDES,
    I,
    K,
    block_entries,
    cases,
    chain,
    counts,
    in_file,
    int32,
    new_file,
)

import psgld
from psgld import _core

ERRORS = (ValueError, IndexError)

NAMES = sorted(cases(Path()))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_wrong_is_an_exception(name, tmp_path):
    case = cases(tmp_path)[name]
    case.call(**case.given)
    for argument, how, value in case.bad():
        try:
            case.call(**(case.given | {argument: value}))
        except ERRORS as error:
            assert str(error) and "\n" not in str(error)
        except TypeError:  # a negative number where none is possible
            assert value == -1
        else:
            pytest.fail(f"{name}: {argument} {how} was taken")


ARRAYS = re.compile(r"int64|int32|uint16")
EXEMPT = {
    "Chain.set_inner_counts", "Grid.set_inner_counts",  # counts, not indices
    "LabelIndex.encode",  # labels may be any numbers
}  # fmt: skip


def test_every_binding_with_indices_has_a_case():
    """`_core.pyi` lists the bindings; those that take integers in arrays must be in the table."""
    text = (Path(psgld.__file__).parent / "_core.pyi").read_text()
    tested = {re.sub(r"32|64|,.*", "", name) for name in NAMES}
    owner, missing = "", []
    for found in re.finditer(
        r"^class (\w+?)(?:32|64)?:|^( *)def (\w+)\((.*?)\) ->", text, re.MULTILINE | re.DOTALL
    ):
        if found[1]:
            owner = found[1]
            continue
        name = f"{owner}.{found[3]}" if found[2] else found[3]
        if ARRAYS.search(found[4]) and name not in tested | EXEMPT:
            missing.append(name)
    assert not missing


def test_draws_only_from_chunks_that_have_entries():
    empty = MASK.copy()
    order, bounds = SIDES["order0"], SIDES["bounds0"]
    empty[np.ix_(order[: bounds[1]], SIDES["order1"][: SIDES["bounds1"][1]])] = False
    index = np.nonzero(empty)[1].astype(np.int32)
    start = np.concatenate([[0], np.cumsum(empty.sum(1))])
    grid = _core.Grid32(
        start, index, np.ones(len(index)), np.empty(0), False, False, 0.0, 0, I, *SIDES.values()
    )
    made = _core.Chain32(grid, K, False, "poisson", 1e-30, False, 1.0, False)
    one = np.ones(1)
    for wrong in ([1, 1], [0, -1]):
        with pytest.raises(ValueError, match="a chunk without entries"):
            made.advance(POOL, 1, int32(0), one, one, np.array([wrong], np.int32), 0, 2)
    made.advance(POOL, 1, int32(0), one, one, np.array([[0, 3]], np.int32), 0, 2)


def test_blocks_in_a_file_are_checked_when_it_is_opened(tmp_path):
    path = tmp_path / "blocks"
    grid = new_file(path)
    for b, rows in enumerate(np.split(SIDES["order0"], SIDES["bounds0"][1:-1])):
        start = np.concatenate([[0], np.cumsum(MASK[rows].sum(1))])
        index = np.concatenate([np.nonzero(MASK[r])[0] for r in rows]).astype(np.int32)
        assert grid.fill(start, index, np.ones(len(index)), rows, b, 0.0)
    grid.finish()
    with pytest.raises(ValueError, match="not being written"):
        grid.fill(start, index, np.ones(len(index)), rows, 1, 0.0)
    counts = MASK.sum(1).astype(float), MASK.sum(0).astype(float)

    def opened():
        return in_file(path, False, KEY, block_entries().ravel(), *counts, False, *SIDES.values())

    assert np.array_equal(opened().entries(), block_entries())
    right = path.read_bytes()
    refused = 0
    for at in range(0, len(right) - 512, 4):
        path.write_bytes(right[:at] + b"\xff\xff\xff\xff" + right[at + 4 :])
        try:
            opened()
        except RuntimeError as error:
            assert str(error)
            refused += 1
    assert refused == len(range(0, len(right) - 512, 4))


def test_numbers_that_are_none():
    for part in (-2, 2):
        with pytest.raises(ValueError, match="the part must be from -1 to 1"):
            chain().accumulate(POOL, "score", part)
    for components in (0, 1025):
        with pytest.raises(ValueError, match="components must be from 1 to 1024"):
            _core.Gibbs32(counts("").call(**counts("").given), components)
    with pytest.raises(ValueError, match="threads must be from 1"):
        _core.Pool(0)


def test_nothing_to_go_back_to():
    with pytest.raises(ValueError, match="nothing was saved"):
        chain().restore()
