"""Batches of payloads to Arrow columns, by the schemas they were written with: for Spark, and for SQL over topics."""
