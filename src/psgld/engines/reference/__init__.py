"""The update in NumPy: the specification of the compiled core."""
