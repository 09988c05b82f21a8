"""Periodic work of the broker: retention, checkpoints, compaction."""
