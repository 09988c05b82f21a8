"""Streams of records in flight, and committers of offsets."""
