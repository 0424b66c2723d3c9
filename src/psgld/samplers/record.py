"""Recreates a sampler from its recorded settings (`to_dict`), including records of older versions, written as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..data.partition import PARTITIONS
from ..dynamics.metrics import METRICS
from ..dynamics.schedule import SCHEDULES
from ..dynamics.step_size import STEP_SIZES
from ..errors import PsgldError, SamplingError
from ..system.record import from_record, lasting

_PARTS: tuple[Any, ...] = (
    *STEP_SIZES.values(),
    *SCHEDULES.values(),
    *PARTITIONS.values(),
    *METRICS.values(),
)


def sampler_from_record(record: Mapping[str, Any], samplers: Mapping[str, Any]) -> Any:
    """Return the sampler described by `settings["sampler"]` of a posterior.

    Examples
    --------
    >>> from psgld.samplers import PSGLD
    >>> record = {"name": "PSGLD", "blocks": 4, "step_size": {"name": "Power", "a": 0.01, "b": 0.51}}
    >>> sampler_from_record(record, {"psgld": PSGLD}).step_size
    Power(a=0.01, b=0.51)
    """
    if is_text(record):
        for kind in samplers.values():
            if as_text(kind()) == record:
                return kind()
        why = "an older psgld wrote its settings as text"
    else:
        try:
            return from_record(record, samplers.values(), _PARTS)
        except (PsgldError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())[:200]
    given = ", ".join(f"{name}={_shown(value)}" for name, value in record.items() if name != "name")
    raise SamplingError(
        f"the sampler cannot be recreated from its record, {record.get('name')}({given[:300]}): {why}; "
        "pass sampler=… again"
    )


def is_text(record: Mapping[str, Any]) -> bool:
    """Return whether an older version wrote this record, with every setting as text and strings in quotes."""
    return str(record.get("dtype", "")).startswith("'")


def as_text(settings: Any) -> dict[str, str]:
    """Return the record that an older version would have written, for comparison."""
    values = {name: lasting(repr(value)) for name, value in vars(settings).items()}
    return {"name": type(settings).__name__} | values


def _shown(value: Any) -> str:
    return str(value.get("text") or value.get("name")) if isinstance(value, Mapping) else str(value)
