"""What the data determine: identifiability, standard errors, errors on validation samples."""
