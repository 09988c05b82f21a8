"""Who may connect, what they may do, how much, and who did it: decisions and formats. No I/O, no asyncio."""
