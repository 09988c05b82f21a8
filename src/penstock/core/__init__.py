"""Definitions for every layer: types, time, limits, settings, counters, log lines."""
