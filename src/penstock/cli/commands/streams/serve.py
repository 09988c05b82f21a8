"""`penstock streams serve`: answer for the state of an application over HTTP."""

from __future__ import annotations


def serve() -> None:
    """Answer for the state of an application over HTTP, until SIGTERM or Ctrl-C."""
    raise NotImplementedError
