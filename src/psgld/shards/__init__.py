"""V on disk, cut into row strips: written in one pass over data of any size, read strip by strip."""

from .read import Shards, Strip
from .write import shard

__all__ = ["Shards", "Strip", "shard"]
