"""Derives schemas from the columns of a query, one module per format."""
