from __future__ import annotations


class BenchError(Exception):
    """A measurement could not be made; the text says why."""
