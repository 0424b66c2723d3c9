"""Shards: V on disk, partitioned into row strips; written in one pass over data of any size, read strip by strip."""

from ..observations import Observations
from ..source import Strip
from .read import Shards
from .write import shard

Observations.open_folder = Shards.open

__all__ = ["Shards", "Strip", "shard"]
