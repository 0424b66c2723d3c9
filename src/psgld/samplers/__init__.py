"""Samplers, one file each: settings (what the user gives) and a chain (what moves)."""

from .psgld import PSGLD

__all__ = ["PSGLD"]
