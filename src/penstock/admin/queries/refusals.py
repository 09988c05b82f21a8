"""What an answer says no to: by name, or as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode, error_of

Refusals = dict[str, ApiError]
PartitionRefusals = dict[TopicPartition, ApiError]


def refusals(rows: Iterable[tuple[Any, Any]]) -> dict[Any, ApiError]:
    return {
        name: error_of(row.error_code, getattr(row, "error_message", None) or None)
        for name, row in rows
        if row.error_code != ErrorCode.NONE
    }


def check(code: int, message: str | None = None) -> None:
    """Raises ApiError."""
    if code != ErrorCode.NONE:
        raise error_of(code, message or None)
