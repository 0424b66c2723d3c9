"""psgld beside other packages: `python -m benchmarks.peers`, `make bench-peers`."""
