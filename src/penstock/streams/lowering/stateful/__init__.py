"""Runs a machine over a data frame. Spark's workers import this package, so it imports few of our modules."""
