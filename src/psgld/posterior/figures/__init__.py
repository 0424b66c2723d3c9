"""The plots of `psgld.plots`, by what they show."""
