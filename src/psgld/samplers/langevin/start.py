"""The random start of the factors of a chain, on the scale of the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engines import Factors, W
from ...models import Moments
from ...models.hyperparameters import start_sizes
from .shared import Shared


def start_factors(factors: Factors, setup: Shared) -> None:
    """Set the factors to the noise of iteration 0, scaled so that W H is as large as V."""
    model = setup.model
    for mode, size in zip(model.modes, start_sizes(model, setup.moments, setup.start), strict=True):
        x = factors.noise(mode.axis, 0) * size
        if model.nonnegative:
            x = np.abs(x) * np.sqrt(np.pi / 2)  # of mean `size`
        elif not model.bias:
            _start_at_mean(setup.moments, mode.axis, x)
        mode.start_biases(x, setup.start.offset)
        factors.set_factor(mode.axis, x)


def _start_at_mean(moments: Moments, which: int, x: NDArray[Any]) -> None:
    """Represent a large mean of the data by the first component, and the variance by the others.

    From a random start, all components would have to agree on a common direction for the mean, which is slow with a
    diagonal metric.
    """
    second = moments.variance + moments.mean**2
    if moments.mean**2 > moments.variance:
        x *= (moments.variance / second) ** 0.25
        root = math.sqrt(abs(moments.mean))
        x[:, 0] = math.copysign(root, moments.mean) if which == W else root
