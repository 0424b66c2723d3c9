"""What is kept of a run: draws, traces, running moments."""

from .draws import Draws
from .moments import RunningMoments
from .recorder import Recorder
from .traces import Trace

__all__ = ["Draws", "Recorder", "RunningMoments", "Trace"]
