"""Levels of predictive intervals that hold values: uniform, if the values come from the predictive distribution.

    u = P(v' < v) + U P(v' = v),   U ~ Uniform(0, 1),   level = |2u - 1|

is the randomised probability integral transform: exact also where values are discrete. The central interval of level l
holds v if |2u - 1| <= l.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .predict import Floats, Prediction


def least_level(prediction: Prediction, values: NDArray[np.float64], seed: int = 0) -> Floats:
    """Return the level of the narrowest central predictive interval that holds each value."""
    below = 1.0 - prediction.exceeds(np.nextafter(values, -np.inf))
    up_to = 1.0 - prediction.exceeds(values)
    u = below + np.random.default_rng(seed).random(len(values)) * (up_to - below)
    return np.asarray(np.abs(2.0 * u - 1.0))


def promised(prediction: Prediction, low: Floats, high: Floats) -> Floats:
    """Return P(low <= v <= high) of a new observation: the level of an interval, or more if values are discrete."""
    return np.asarray(prediction.exceeds(np.nextafter(low, -np.inf)) - prediction.exceeds(high))


def share_within(levels: Floats, least: Floats) -> Floats:
    """Return the share of values that intervals of each level hold, from their least levels."""
    return np.asarray(np.searchsorted(np.sort(least), levels, side="right") / len(least))
