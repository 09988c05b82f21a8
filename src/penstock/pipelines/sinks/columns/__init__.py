"""Spark's columns against those of a table."""
