"""Why a store cannot answer."""

from __future__ import annotations

from typing import Final

TOO_LARGE: Final = 413


class StoreError(Exception):
    """`status` is HTTP's; `hint` gives the remedy, where one is known."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
