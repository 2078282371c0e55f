"""What is known of a function: points, values, Jacobians, weights, and where they come from."""
