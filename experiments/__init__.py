"""The experiments of the paper, and our own: `python -m experiments`."""
