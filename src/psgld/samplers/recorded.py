"""A sampler from the record of its settings, which holds them as text: `PSGLD(blocks=4, step_size=Power(…))`.

Only numbers, strings and the small objects below are read; nothing is run.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..data.partition import InOrder, Shuffled
from ..dynamics.metrics import METRICS
from ..dynamics.schedule import Cyclic, Hopping, Proportional, Reshuffled
from ..dynamics.step_size import Constant, Cyclical, Decay, Power
from ..errors import SamplingError

_KINDS: tuple[Any, ...] = (
    *(Cyclic, Reshuffled, Proportional, Hopping),
    *(Shuffled, InOrder),
    *(Constant, Power, Decay, Cyclical),
    *METRICS.values(),
)
_OBJECTS = {kind.__name__: kind for kind in _KINDS}


def from_record(record: Mapping[str, str], samplers: Mapping[str, Any]) -> Any:
    """Return the sampler that `settings["sampler"]` of a posterior describes.

    Examples
    --------
    >>> from psgld.samplers import PSGLD
    >>> record = {"name": "PSGLD", "blocks": "4", "step_size": "Power(a=0.01, b=0.51)", "dtype": "'float64'"}
    >>> from_record(record, {"psgld": PSGLD}).step_size
    Power(a=0.01, b=0.51)
    """
    kinds = {kind.__name__: kind for kind in samplers.values()}
    name = record["name"]
    try:
        kind = kinds[name]
        known = {f.name for f in fields(kind)}
        return kind(
            **{n: _value(ast.parse(text, mode="eval").body) for n, text in record.items() if n in known}
        )
    except (KeyError, ValueError, TypeError, SyntaxError) as error:
        given = ", ".join(f"{n}={text}" for n, text in record.items() if n != "name")
        raise SamplingError(
            f"the sampler cannot be made again from its record, {name}({given}); give sampler=… once more"
        ) from error


def _value(node: ast.expr) -> Any:
    """Return the number, the string or the object that an expression is."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        return _OBJECTS[node.func.id](**{k.arg: _value(k.value) for k in node.keywords if k.arg})
    return ast.literal_eval(node)
