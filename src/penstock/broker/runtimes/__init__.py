"""Coordinators at work: records appended and replayed, replies released, timers set."""
