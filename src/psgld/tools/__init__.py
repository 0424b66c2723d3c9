"""What looks at a run from outside: the self-check, forecasts, the network."""
