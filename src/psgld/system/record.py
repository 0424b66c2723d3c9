"""Settings as records fit for JSON: frozen dataclasses to dictionaries of their class name and fields, and back.

Only classes of a registry are made again, by their own checks: a record cannot run code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..errors import SamplingError


class Recorded:
    """A frozen dataclass that can be written down."""

    def to_dict(self) -> dict[str, Any]:
        """Return the name of the class and its fields, fit for JSON."""
        own: Any = self
        return {"name": type(self).__name__} | {f.name: as_record(getattr(self, f.name)) for f in fields(own)}


def as_record(value: Any) -> Any:
    """Return a setting in a form fit for JSON; of one that cannot be made again, such as a function, its text."""
    if isinstance(value, Recorded):
        return value.to_dict()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"name": None, "text": lasting(repr(value))}


def lasting(text: str) -> str:
    """Return a description without the address of a function, which is another in the next process."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def from_record(record: Any, kinds: Iterable[Any], parts: Iterable[Any] = ()) -> Any:
    """Return the object that `to_dict` described, one of `kinds` whose own settings may be `parts`.

    Raises SamplingError if it is none of them, and what their constructors raise.
    """
    if not isinstance(record, Mapping):
        raise SamplingError(f"expected a record of settings, got {record!r}")
    known = {kind.__name__: kind for kind in kinds}
    if record.get("name") not in known:
        raise SamplingError(f"{record.get('text') or record.get('name')!r} is none of {', '.join(known)}")
    kind = known[record["name"]]
    names = {f.name for f in fields(kind)}
    if unknown := sorted(set(record) - names - {"name"}):
        raise SamplingError(f"{kind.__name__} has no setting {unknown[0]}")
    return kind(
        **{
            name: from_record(value, parts) if isinstance(value, Mapping) else value
            for name, value in record.items()
            if name != "name"
        }
    )
