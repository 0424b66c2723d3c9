"""A run: its chains, the sampling loop, and the recorded draws and traces."""
