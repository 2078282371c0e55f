"""Variable projection: search from many starts, ridge and smoothing chosen, refinement on all samples."""
