"""Damaged files."""
