"""What the in-sync replicas of a partition mean. Pure."""
