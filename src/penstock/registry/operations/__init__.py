"""Decisions: what the registry answers and what it writes, from its state and a request. No I/O, no waiting."""
