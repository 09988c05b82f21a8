"""Converts JSON documents to records and writes them one at a time, in small batches, or as a stream."""
