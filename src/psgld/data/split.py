"""Holds out a part of the data."""

from __future__ import annotations

from typing import Any

from .observations import Observations, observations


def split(V: Any, fraction: float = 0.1, seed: int = 0) -> tuple[Observations, Observations]:
    """Hold out a random fraction of the stored entries of V; return (train, test).

    Both have the shape, the labels and the weights of V, and go wherever data go: `sample(train)`,
    `posterior.evaluate(test)`. A posterior that was sampled from `train` keeps `test`: `posterior.evaluate()` uses it.
    If absent entries are zeros, held-out entries count as zeros in `train`, the usual protocol for implicit feedback;
    `split(psgld.observations(V).filled())` holds out cells, zeros among them.

    Parameters
    ----------
    V
        Data in any form that `sample` takes; shards are loaded into memory.
    fraction
        The fraction of the stored entries that is held out.
    seed
        The same seed holds out the same entries.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> train, test = psgld.split(np.arange(20.0).reshape(4, 5), 0.25)
    >>> train.stored, test.stored, test.shape
    (15, 5, (4, 5))
    """
    data = observations(V).load()
    assert isinstance(data, Observations)
    train, _ = data.split(fraction, seed)
    assert train.held_out is not None
    return train, train.held_out
