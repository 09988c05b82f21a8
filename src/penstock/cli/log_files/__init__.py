"""Reads and prints the files of a data directory."""
