"""What the broker does by the clock: retention, checkpoints, compaction."""
