"""The observed matrix V: built from arrays, tables and files, in memory or on disk, with labels and a partition."""

from .observations import Observations
from .shards import Shards

__all__ = ["Observations", "Shards"]
