"""Faults against a cluster of real processes, one after another, while clients of all kinds write and read."""
