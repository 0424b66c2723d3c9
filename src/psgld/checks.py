"""What counts as a number where the user gives one."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np


def is_integer(x: object) -> TypeGuard[int]:
    """Tell whether x is an integer, of Python or of NumPy; True and False are none."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def is_number(x: object) -> TypeGuard[float]:
    """Tell whether x is a number, of Python or of NumPy, perhaps inf or NaN; True and False are none."""
    return isinstance(x, int | float | np.number) and not isinstance(x, bool)
