"""Segments and their indexes on disk."""
