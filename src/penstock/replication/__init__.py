"""The rules by which replicas of a partition stay equal: progress, high watermark, in-sync set, truncation. Pure."""
