"""Checks SQL statements before Spark starts."""
