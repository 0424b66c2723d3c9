"""A run: its chains, the loop, what is kept of them."""
