"""What every room needs: errors, argument checks, whole files, progress, interrupts, threads, plain JSON."""
