"""Mutated requests and files."""
