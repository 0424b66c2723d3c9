"""One file per peer: `fit(problem, settings, record)`, and the name of its distribution, `PACKAGE`."""
