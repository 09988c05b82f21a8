"""Disks that fail on demand, live in memory, or lose power."""
