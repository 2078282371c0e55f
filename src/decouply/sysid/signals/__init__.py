"""Records of inputs and outputs: their units, ranges and what residuals tell."""
