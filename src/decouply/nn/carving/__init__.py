"""A part of a network: its place, what reaches it, its values and Jacobians."""
