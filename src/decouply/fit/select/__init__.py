"""The choice of ranks and degrees."""
