"""Encodes Arrow columns to batches of payloads by one schema: the way back from `penstock.serdes.columns`."""
