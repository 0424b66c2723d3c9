"""Benchmarks: `python -m benchmarks [names…] [--prototypes DIR] [--quick]`.

Every figure is a ratio of two things measured in turns in the same run (A B A B …), the least of each: absolute times
say more about the machine and its neighbours than about the code.
"""
