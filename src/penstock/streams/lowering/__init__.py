"""Nodes as frames of Spark: how the rows of a query are made from records, and become records again."""
