"""The partitions of this broker: leadership, waiting requests, flushes."""
