"""From JSON documents to records in topics, one at a time, in small batches, or as a stream."""
