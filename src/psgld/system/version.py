"""The version of the package: the one place that says it."""

__version__ = "0.1.0"
