"""Who may connect, what they may do, how much, and who did it. Pure: bytes and decisions, no sockets, no asyncio."""
