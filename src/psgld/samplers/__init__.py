"""Samplers, one file each: settings, given by the user, and a chain, which is advanced. `base.py` is the interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import SamplingError
from .base import Chain, DrawBuffers, Marks, Planned, Sampler, Setup, State
from .bpmf_gibbs import BPMFGibbs
from .dsgd import DSGD
from .dsgld import DSGLD
from .gibbs import Gibbs
from .ld import LD
from .psgld import PSGLD
from .record import sampler_from_record
from .sgld import SGLD

__all__ = [
    "DSGD",
    "DSGLD",
    "LD",
    "PSGLD",
    "SAMPLERS",
    "SGLD",
    "BPMFGibbs",
    "Chain",
    "DrawBuffers",
    "Gibbs",
    "Marks",
    "Planned",
    "Sampler",
    "Setup",
    "State",
    "as_sampler",
    "sampler_from_dict",
]

SAMPLERS: dict[str, type[Sampler]] = {
    "psgld": PSGLD,
    "ld": LD,
    "sgld": SGLD,
    "dsgd": DSGD,
    "dsgld": DSGLD,
    "gibbs": Gibbs,
    "bpmf-gibbs": BPMFGibbs,
}
"""Samplers by their names in `psgld.sample(sampler=…)` and on the command line."""


def sampler_from_dict(record: Mapping[str, Any]) -> Sampler:
    """Return the sampler that `to_dict` described; raise SamplingError if a setting was a function of the user."""
    found: Sampler = sampler_from_record(record, SAMPLERS)
    return found


def as_sampler(sampler: Sampler | str | None) -> Sampler:
    """Return a sampler, given one or its name; `PSGLD()` for None."""
    if sampler is None:
        return PSGLD()
    if isinstance(sampler, str) and sampler in SAMPLERS:
        return SAMPLERS[sampler]()
    if not isinstance(sampler, tuple(SAMPLERS.values())):
        raise SamplingError(
            f"sampler must be PSGLD(…), LD(…), … or one of the names {', '.join(SAMPLERS)}, got {sampler!r}"
        )
    return sampler  # type: ignore[return-value]
