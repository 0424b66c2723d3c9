"""scikit-learn estimators, imported when they are asked for."""

from .estimators import BayesianMF, BayesianNMF

__all__ = ["BayesianMF", "BayesianNMF"]
