"""The rules of replication: follower progress, high watermark, in-sync set, truncation. Pure."""
