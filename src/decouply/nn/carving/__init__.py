"""A part of a network: where it is, what reaches it, its values and Jacobians."""
