"""Settings as records, serialisable as JSON: dictionaries of the class name and the fields of a frozen dataclass.

Only classes in a registry are restored from a record, with all their checks, so a record cannot run code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..errors import SamplingError


class Recorded:
    """Base class of frozen dataclasses that can be converted to a record."""

    def to_dict(self) -> dict[str, Any]:
        """Return the name of the class and its fields, serialisable as JSON."""
        own: Any = self
        return {"name": type(self).__name__} | {f.name: as_record(getattr(self, f.name)) for f in fields(own)}


def as_record(value: Any) -> Any:
    """Return a setting as a value that is serialisable as JSON; a function, which cannot be restored, as its text."""
    if isinstance(value, Recorded):
        return value.to_dict()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"name": None, "text": lasting(repr(value))}


def lasting(text: str) -> str:
    """Return a description without memory addresses, which differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def from_record(record: Any, kinds: Iterable[Any], parts: Iterable[Any] = ()) -> Any:
    """Return the object that `to_dict` described, an instance of one of `kinds`; its settings may be `parts`.

    Raises SamplingError if it is none of them; their constructors raise their own errors.
    """
    if not isinstance(record, Mapping):
        raise SamplingError(f"expected a record of settings, got {record!r}")
    known = {kind.__name__: kind for kind in kinds}
    if record.get("name") not in known:
        raise SamplingError(f"{record.get('text') or record.get('name')!r} is not one of {', '.join(known)}")
    kind = known[record["name"]]
    names = {f.name for f in fields(kind)}
    if unknown := sorted(set(record) - names - {"name"}):
        raise SamplingError(
            f"{kind.__name__} has no setting {unknown[0]!r}; it has {', '.join(sorted(names))}"
        )
    return kind(
        **{
            name: from_record(value, parts) if isinstance(value, Mapping) else value
            for name, value in record.items()
            if name != "name"
        }
    )
