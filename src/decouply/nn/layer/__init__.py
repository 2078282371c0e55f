"""Layers of univariate functions as PyTorch modules."""
