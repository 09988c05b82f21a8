"""A log that is copied into another data directory while it serves, and goes on there."""
