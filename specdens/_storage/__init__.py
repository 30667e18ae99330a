"""Files: atomic writes, the one ``.npz`` layer of results and checkpoints, saved results and CSV."""
