"""The experiments of the paper, one file per figure: `python -m experiments`, or `make paper`."""
