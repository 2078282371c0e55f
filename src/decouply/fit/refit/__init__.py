"""Models fitted again: without a function, or with simpler ones."""
