"""Rows of Spark to topics, at least once or exactly once."""
