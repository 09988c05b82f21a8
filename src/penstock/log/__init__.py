"""The log of a partition: append, read, recovery, compaction. No asyncio."""
