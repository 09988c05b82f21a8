"""Lowers nodes to Spark's data frames: converts records to rows of a query, and rows to records."""
