"""The chain of the Langevin samplers: what surrounds the step that the engine makes."""

from .chain import LangevinChain, LangevinSetup

__all__ = ["LangevinChain", "LangevinSetup"]
