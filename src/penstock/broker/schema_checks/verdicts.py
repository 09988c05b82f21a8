"""The questions about the schemas of a batch, and the answer."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.log_settings import LogSettings
from penstock.core.types import Buffer, TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode

# An error, or None for a batch that may be appended.
Verdicts = dict[TopicPartition, ApiError | None]


class Asked(NamedTuple):
    topic_partition: TopicPartition
    settings: LogSettings
    batch: Buffer


class BadSchemasError(ApiError):
    """Records are refused because of their schemas."""

    def __init__(self, errors: list[tuple[int, str]]) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, f"{len(errors)} records were refused: {errors[0][1]}", errors)
