"""What the data determine: identifiability, standard errors, errors on left-out samples."""
