"""Segments and their indexes on the disk."""
