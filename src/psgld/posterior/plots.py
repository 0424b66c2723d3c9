"""Plots of a posterior: each takes the posterior, perhaps held-out entries, and axes or None, and returns the axes.

matplotlib is imported on first use; no global state of pyplot is changed.
"""

from .calibration import least_level
from .figures.factors import activations, components, dictionary, factor_map
from .figures.overview import overview
from .figures.predictions import calibration, certainty, coverage, examples, observed
from .figures.runs import comparison, parts, trace

__all__ = [
    "activations",
    "calibration",
    "certainty",
    "comparison",
    "components",
    "coverage",
    "dictionary",
    "examples",
    "factor_map",
    "least_level",
    "observed",
    "overview",
    "parts",
    "trace",
]
