"""Faults against a cluster of real processes, in turn, while clients of all kinds write and read."""
