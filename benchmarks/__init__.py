"""Measurements that `make bench` runs, and the plain reference they compare with."""
