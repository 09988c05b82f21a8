"""Compares Spark's columns with the columns of a table."""
