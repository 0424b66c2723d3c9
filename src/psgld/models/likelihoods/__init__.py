"""Likelihoods: v ~ p(· | μ)."""
