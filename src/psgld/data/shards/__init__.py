"""Shards: V on disk, partitioned into row strips; written in one pass over data of any size, read strip by strip."""

from typing import TYPE_CHECKING, Any

from ..observations import Observations
from ..source import Strip
from .read import Shards

if TYPE_CHECKING:
    from .write import shard

Observations.open_folder = Shards.open

__all__ = ["Shards", "Strip", "shard"]


def __getattr__(name: str) -> Any:
    """Import what writes shards on first use."""
    if name != "shard":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .write import shard

    return shard
