"""Extra steps of `psgld.sample` where several processes run a chain: error handling, and equal arguments."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from .. import _core
from ..data.source import Source
from ..dynamics.step_size import tabulate
from ..engines import Engine
from ..errors import SamplingError
from ..samplers import SAMPLERS, Sampler, Setup
from ..samplers.langevin.shared import Shared
from ..system import version
from .loop import Plan
from .recorder import Pairs

_P = ParamSpec("_P")
_R = TypeVar("_R")


def abort_on_error(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that an error on one rank ends all ranks of its `engine`."""

    @wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        engine = kwargs.get("engine")
        with engine.guard() if isinstance(engine, Engine) else nullcontext():
            return function(*args, **kwargs)

    return guarded


def for_ranks(sampler: Sampler, data: Source, engine: Engine, strips: int | None = None) -> Sampler:
    """Return the sampler with at least one strip per rank, if the user left the number of strips open.

    A resumed run keeps its number of `strips`, for any number of ranks.
    """
    if engine.distributed and sampler.distribution is None:
        others = ", ".join(kind.__name__ for kind in SAMPLERS.values() if kind.distribution)
        raise SamplingError(
            f"{type(sampler).__name__} does not run on MPI(), only {others}; or use Threads()"
        )
    settings: Any = sampler
    if sampler.distribution != "strips" or settings.blocks is not None:
        return sampler
    if strips and data.strips is None:
        return cast(Sampler, replace(settings, blocks=strips))
    if engine.distributed and sampler.cycle(data) < engine.ranks:
        return cast(Sampler, replace(settings, blocks=engine.ranks))
    return sampler


def checked_keys(
    engine: Engine, setup: Setup, plan: Plan, keys: list[int], pairs: Pairs | None, random: bool
) -> list[int]:
    """Check that all ranks have the same arguments; return the keys of the chains, rank 0's if they are random."""
    if random:
        keys = engine.agree_on_keys(keys)
    engine.check_same(_shared(setup, plan, keys, pairs))
    return keys


def _shared(setup: Setup, plan: Plan, keys: list[int], pairs: Pairs | None) -> dict[str, str]:
    """Return everything that must be equal on all ranks, by names that the user knows."""
    data, settings = setup.data, vars(setup.settings)
    steps = tabulate(cast(Shared, setup).step_size, 1, 100)  # only Langevin samplers run on ranks
    track = None if pairs is None else np.stack([np.asarray(p, np.int64) for p in pairs])
    return {
        "the version of psgld": version.__version__,
        "the instruction set": _core.instruction_set,
        "the shape of V": " × ".join(map(str, data.shape)),
        "the number of entries of V": str(data.stored),
        "the mean and variance of V": f"{data.mean()!r}, {data.variance()!r}",
        "the entries of V": data.fingerprint(exact=True)[:16],
        "the model": repr(setup.model),
        **{name: repr(value) for name, value in settings.items() if name != "step_size"},
        "step_size": f"{steps[0]:.6g} … ({zlib.crc32(steps.tobytes())})",
        **{name: str(value) for name, value in vars(plan).items()},
        "chains": str(len(keys)),
        "seed": ", ".join(map(str, keys)),
        "track": "nothing" if track is None else str(zlib.crc32(track.tobytes())),
    }
