"""Runtimes of the coordinators: append and replay records, release replies, set timers."""
