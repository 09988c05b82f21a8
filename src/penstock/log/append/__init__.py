"""Whether a batch may be appended, and when a new segment begins."""
