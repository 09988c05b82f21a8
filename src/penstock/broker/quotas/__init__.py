"""Quotas at work: what clients use is counted, and who uses too much is held back."""
