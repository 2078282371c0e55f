"""Samples in stores: each kind in a file, opened by its path, wherever a worker is."""
