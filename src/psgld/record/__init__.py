"""What is kept of a run: draws, traces, running moments; in memory, and in a store."""

from .draws import Draws
from .layout import Layout
from .moments import RunningMoments
from .recorder import Recorder
from .saver import Saver
from .store import Store
from .traces import Trace

__all__ = [
    "Draws",
    "Layout",
    "Recorder",
    "RunningMoments",
    "Saver",
    "Store",
    "Trace",
]
