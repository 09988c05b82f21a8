"""`penstock streams query`: ask for rows of a store."""

from __future__ import annotations


def query() -> None:
    """Ask for rows of a store."""
    raise NotImplementedError
