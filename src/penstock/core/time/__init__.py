"""Durations as people write them, and the backoff before another attempt. Pure: no clock, no sleep."""
