"""What clients feel while many partitions move, measured."""
