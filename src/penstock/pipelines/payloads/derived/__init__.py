"""Schemas that are made of the columns of a query, one module a format."""
