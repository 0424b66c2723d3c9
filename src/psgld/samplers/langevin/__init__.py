"""The chain of the Langevin samplers: everything around the step, which the engine computes."""

from .chain import LangevinChain, LangevinSetup

__all__ = ["LangevinChain", "LangevinSetup"]
