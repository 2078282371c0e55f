"""How good a fit is, and whether the data would allow better."""
