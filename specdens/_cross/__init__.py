"""Signed and complex measures: ⟨a|δ(λ − A)|b⟩ between two vectors, and tr B δ(λ − A) weighted by an operator."""
