"""Questions to a measure: outliers, power laws, random-matrix laws and distances."""
