"""Spark's own Kafka connector as a peer: its jars, for the interop tests and the benchmark."""
