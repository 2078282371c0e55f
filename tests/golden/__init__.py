"""Recorded numbers of every path through the public interface: what a change of the code must not change."""
