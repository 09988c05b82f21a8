"""Authentication, authorization, quotas and audit: decisions and formats. No I/O, no asyncio."""
