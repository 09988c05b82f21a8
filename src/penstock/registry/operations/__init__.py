"""Decisions of the registry: its state and a request give the answer and the records to write. No I/O, no waiting."""
