"""What is solved: data in standard units, their weights, sizes and floors, and what a solver takes and gives back."""
