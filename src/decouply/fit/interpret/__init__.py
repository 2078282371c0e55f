"""What the functions of a model are: named curves and the evidence for them."""
