"""Parameters and vectors of which every rank holds some rows."""
