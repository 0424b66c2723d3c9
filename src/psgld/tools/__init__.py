"""Diagnostics: the self-check, forecasts of memory and time, network measurements."""
