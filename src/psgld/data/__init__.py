"""What was observed: from arrays, tables and files to entries with labels, cut into strips; in memory or on disk."""

from .observations import Observations
from .shards import Shards, shard

__all__ = ["Observations", "Shards", "shard"]
