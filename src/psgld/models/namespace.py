"""The module of functions of an array: NumPy, or that of another library with the array API, such as JAX.

The formulas of likelihoods and of the step are written once, in these terms, for all engines that run them in Python.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np


def namespace(*arrays: Any) -> Any:
    """Return the module of functions for these arrays; NumPy for its own, and for numbers.

    Examples
    --------
    >>> namespace(np.ones(3), 2.0).__name__
    'numpy'
    """
    for x in arrays:
        if not isinstance(x, np.ndarray | np.generic) and hasattr(x, "__array_namespace__"):
            return x.__array_namespace__()
    return np


def special(*arrays: Any) -> Any:
    """Return the module of special functions for these arrays: `scipy.special`, or its namesake of another library."""
    library = namespace(*arrays).__name__.partition(".")[0]
    return import_module("scipy.special" if library == "numpy" else f"{library}.scipy.special")
