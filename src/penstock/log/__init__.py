"""The log of a partition: appended, read, recovered, compacted. No asyncio."""
