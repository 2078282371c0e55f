"""State-space models: search, fit, canonical form, choice of the order."""
