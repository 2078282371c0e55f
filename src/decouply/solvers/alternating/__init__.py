"""The paper's alternating algorithms, and those of others before it."""
