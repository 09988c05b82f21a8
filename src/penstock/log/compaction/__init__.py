"""The log cleaner: selects segments, filters their batches, swaps the cleaned segments in."""
