"""Decodes batches of payloads to Arrow columns by their writers' schemas: for Spark, and for SQL over topics."""
