"""Simulation of a state space, its sensitivities, and the fit to a simulation."""
