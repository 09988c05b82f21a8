"""The errors of a cluster on this machine, in words that name the remedy."""

from __future__ import annotations


class ClusterError(Exception):
    """`hint` gives the user's next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}. {hint}" if hint else message)
        self.message = message
        self.hint = hint
