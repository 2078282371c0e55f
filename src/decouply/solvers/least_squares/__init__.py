"""Residuals of a model, their derivatives, and the descent that all least-squares solvers share."""
