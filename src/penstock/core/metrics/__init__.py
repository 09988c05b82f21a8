"""Counters, and the table of published metrics."""
