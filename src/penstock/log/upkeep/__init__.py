"""Flushes and deletes files beside the event loop."""
