"""What a model says: named curves, simplification, what each function is worth."""
