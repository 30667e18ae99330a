"""Batches of data: reading, checking, keeping and measuring them."""
