"""Models as files, formulas, graphs, curves and notebook cells."""
