"""Flushing and deleting beside the event loop."""
