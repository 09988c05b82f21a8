"""Requests of the commands to a cluster, by client library or as raw requests."""
