"""For tests whose whole question is whether anything unexpected happens."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Surprise:
    """Keeps the exception that ends its block, whatever it is, instead of letting it through.

    with Surprise() as surprise:
        decode(garbage)
    if surprise.error is not None: ...
    """

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        return True

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"
