"""Hostile connections."""
