"""Models of classes: log-odds by maximum likelihood, and how good they are."""
