"""From a network to a smaller one: the pipeline, its search, its report."""
