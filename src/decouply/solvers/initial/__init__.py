"""Start values read from the data: eigenvectors, parallel gradients, peeling."""
