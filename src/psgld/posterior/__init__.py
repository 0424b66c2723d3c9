"""What comes out of a run: draws, and what is asked of them."""

from .posterior import Posterior, load

__all__ = ["Posterior", "load"]
