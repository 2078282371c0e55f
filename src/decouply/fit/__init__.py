"""From samples to a model: `decouple`, `select`, and what they return."""
