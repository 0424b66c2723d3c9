"""Engines: where the blocks live and who works on them. They contain no mathematics."""

from .threads import Threads

__all__ = ["Threads"]
