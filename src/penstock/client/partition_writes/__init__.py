"""Writes the batches of a partition once and in order."""
