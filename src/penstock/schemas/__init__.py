"""Schemas of three formats: parses, prints, normalises, distinguishes and compares them. No I/O, no asyncio, no
network.
"""
