"""Where the factors of a chain start: at random, of the scale of the data."""

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
    """Give the factors their start: the noise of iteration 0, of the size that makes W H as large as V."""
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
    """Let the first component carry the mean of the data, where it is large, and the others the variance.

    From a random start the components would have to find a common direction to represent the mean, and turn it
    together: a diagonal metric is slow at that.
    """
    second = moments.variance + moments.mean**2
    if moments.mean**2 > moments.variance:
        x *= (moments.variance / second) ** 0.25
        root = math.sqrt(abs(moments.mean))
        x[:, 0] = math.copysign(root, moments.mean) if which == W else root
