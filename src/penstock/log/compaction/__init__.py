"""The cleaner: which segments are cleaned, what becomes of their batches, and the swap."""
