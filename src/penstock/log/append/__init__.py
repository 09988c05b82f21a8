"""The append of a batch to a log: validation, conversion, the roll to a new segment, the write."""
