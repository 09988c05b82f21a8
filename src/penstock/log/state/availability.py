"""Whether a partition is usable, and the reason if not.

A failing disk takes one partition offline: from then on every call is refused with KAFKA_STORAGE_ERROR until the broker
is started again. A process without descriptors or memory is no failing disk: the one call is refused with the same
error, after which clients try again, and the partition stays online. A deleted partition is refused as unknown.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from penstock.core.types import TopicPartition
from penstock.log.storage.files import PASSING
from penstock.log.storage.scan import CorruptLogError
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)


class Availability:
    """Whether one partition is usable. `offline_reason` is a plain attribute since every append and read checks it."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.offline_reason: str | None = None
        self._refusal = ErrorCode.KAFKA_STORAGE_ERROR

    def go_offline(self, reason: str) -> None:
        """The first reason counts; later errors are usually its consequence."""
        if self.offline_reason is None:
            self.offline_reason = reason
            logger.error("partition %s goes offline: %s", self.topic_partition, reason)

    def mark_removed(self) -> None:
        """The partition was deleted: its remaining users learn so."""
        self._refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.offline_reason = "the partition was deleted"

    @property
    def is_removed(self) -> bool:
        return self._refusal is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def check_online(self) -> None:
        if self.offline_reason is not None:
            raise ApiError(self._refusal, f"{self.topic_partition} is offline: {self.offline_reason}")

    def fail(self, doing: str, error: Exception) -> ApiError:
        """Goes offline; returns the error for the caller."""
        self.go_offline(f"{doing}: {error}")
        return ApiError(self._refusal, f"{self.topic_partition} is offline: {self.offline_reason}")

    def refuse(self, doing: str, error: Exception) -> ApiError:
        """The error for a call that may be repeated. Goes offline, unless the cause will pass."""
        if not isinstance(error, OSError) or error.errno not in PASSING:
            return self.fail(doing, error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{doing} of {self.topic_partition} failed for now: {error}")

    @contextlib.contextmanager
    def storage_errors(self, doing: str, *, is_repeatable: bool = False) -> Iterator[None]:
        """`is_repeatable`: a failure leaves everything unchanged, or so that another attempt does the rest."""
        try:
            yield
        except (OSError, CorruptLogError) as error:
            raise (self.refuse if is_repeatable else self.fail)(doing, error) from error
