"""Writes Spark's rows to topics, at least once or exactly once."""
