"""The streams and tables that users write. Each call adds a node to a draft. Pure: no Spark, no broker."""
