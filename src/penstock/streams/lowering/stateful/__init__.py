"""A machine over a frame. Spark's workers import this package, so it imports little of ours."""
