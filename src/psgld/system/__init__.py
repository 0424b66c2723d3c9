"""Operating system and files: untrusted input, atomic writes, locks, limits of memory and cores, cost model."""
