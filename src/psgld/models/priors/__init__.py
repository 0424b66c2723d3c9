"""Priors of the factors."""
