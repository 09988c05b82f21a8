"""Counters, and the table of what is published of them."""
