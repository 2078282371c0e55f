"""Other packages on the Silverbox benchmark, each in an environment of its own: `make peers`."""
