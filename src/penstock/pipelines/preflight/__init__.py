"""Finds certain failures of a pipeline before Spark starts."""
