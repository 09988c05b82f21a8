"""What goes wrong with a cluster on this machine, in words that say what to do."""

from __future__ import annotations


class ClusterError(Exception):
    """`hint` says what the user can do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}. {hint}" if hint else message)
        self.message = message
        self.hint = hint
