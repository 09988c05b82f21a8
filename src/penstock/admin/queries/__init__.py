"""Queries to a cluster, one module per theme: the requests, their slices, and the meaning of the answers."""
