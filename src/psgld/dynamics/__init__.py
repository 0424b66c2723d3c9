"""The dynamics of a chain: metrics, step sizes, schedules of the parts, subsamples, monitored entries."""
