"""Streams and tables as people write them. Each call adds a node to a draft. Pure: no Spark, no broker."""
