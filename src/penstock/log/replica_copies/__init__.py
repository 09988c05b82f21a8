"""Copies a log into another data directory while the log serves, then serves from the copy."""
