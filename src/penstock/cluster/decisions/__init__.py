"""Decisions of the controller about topics, partitions and configuration. Pure."""
