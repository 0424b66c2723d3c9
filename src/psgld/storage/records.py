"""Checks of the records that a run adds to its settings, and that summaries read: the fit, starts, stacking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Test = Callable[[Any], bool]


def _number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _numbers(x: Any) -> bool:
    return isinstance(x, list) and all(map(_number, x))


def _pair(x: Any) -> bool:
    return _numbers(x) and len(x) == 2


def _all(test: Test) -> Test:
    """Return a test of the values of a dictionary, or of the members of a list."""

    def of(x: Any) -> bool:
        if not isinstance(x, dict | list):
            return False
        return all(map(test, x.values() if isinstance(x, dict) else x))

    return of


_FIT: Mapping[str, Test] = {
    "entries": _number,
    "v": _pair,
    "mu": _pair,
    "log_likelihood": _number,
}
_MORE: Mapping[str, Test] = {
    "size": _number,
    "rows": _all(_pair),
    "cols": _all(_pair),
    "baselines": lambda x: _all(_number)(x) and isinstance(x, dict) and "mean" in x,
    "spread": lambda x: _all(_pair)(x) and isinstance(x, dict),
}
_RECORDS: Mapping[str, tuple[Mapping[str, Test], Mapping[str, Test]]] = {
    "fit": (_FIT, _MORE),
    "starts": ({"number": _number}, {}),
    "stacking": ({"weights": _numbers, "entries": _number}, {}),
}
"""What each record must have, and what it may have."""


def check_records(settings: Mapping[str, Any]) -> None:
    """Raise ValueError if a record has members of the wrong kind, or lacks some."""
    for name, (must, may) in _RECORDS.items():
        record = settings.get(name)
        if record is None or record == {}:
            continue
        if not isinstance(record, dict):
            raise ValueError(f"settings: {name} is {record!r}, expected a dictionary")
        for member, test in {**must, **may}.items():
            if (member in must or member in record) and not test(record.get(member)):
                raise ValueError(f"settings: {name} has {member} {record.get(member)!r}")
