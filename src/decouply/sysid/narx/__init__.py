"""NARX models: polynomial, decoupled, refined."""
