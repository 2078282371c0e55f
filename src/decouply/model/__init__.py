"""Models: layers of functions, decouplings, ParaTuck factors, and the names of their signals."""
