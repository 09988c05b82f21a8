"""Schemas of three formats: parsed, printed, normalised, told apart, compared. No I/O, no asyncio, no network."""
