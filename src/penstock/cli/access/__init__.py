"""Asking a cluster, by client library or by raw requests."""
