"""Batches of records as a client writes and finds them: bytes and decisions, no I/O."""
