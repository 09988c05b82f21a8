"""What the answer to a batch means for the batch, and for those behind it. Decisions, no I/O."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from penstock.protocol.errors import ApiError, ErrorCode, error_of, is_retriable, known_code
from penstock.protocol.messages.produce import PartitionProduceResponse, ProduceResponse


class ProduceVerdict(enum.Enum):
    WRITTEN = enum.auto()
    AGAIN = enum.auto()  # the broker may or may not have written the batch; the sequence sorts that out
    OUT_OF_ORDER = enum.auto()  # not written: a batch before it is missing
    FORGOTTEN = enum.auto()  # not written: the broker knows nothing of the producer any more
    FENCED = enum.auto()  # not written, and nothing will be under this producer id and epoch
    REFUSED = enum.auto()  # not written, and will not be


_VERDICTS = {
    ErrorCode.NONE: ProduceVerdict.WRITTEN,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: ProduceVerdict.WRITTEN,  # so long ago that the broker does not know where
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: ProduceVerdict.OUT_OF_ORDER,
    ErrorCode.UNKNOWN_PRODUCER_ID: ProduceVerdict.FORGOTTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProduceVerdict.FENCED,
    ErrorCode.PRODUCER_FENCED: ProduceVerdict.FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ProduceVerdict.FENCED,
}
# A part of the batch might be taken.
REFUSED_FOR_CONTENT = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.CORRUPT_MESSAGE,
    }
)
_UNKNOWN_OFFSET = -1


class Appended(NamedTuple):
    """Where the batch is: its records have the offsets from `base_offset` on, which is -1 where the broker does not
    tell (acks=0, or a batch that it found to be written long ago). `timestamp_ms` is the broker's time for topics with
    LogAppendTime, and -1 for others: the records keep their own."""

    base_offset: int
    timestamp_ms: int

    def offsets(self, count: int) -> Sequence[int]:
        """Of the records of the batch, which are so many; each is -1 where the broker does not tell."""
        if self.base_offset < 0:
            return [_UNKNOWN_OFFSET] * count
        return range(self.base_offset, self.base_offset + count)


NOT_TOLD = Appended(_UNKNOWN_OFFSET, -1)


def judge(code: int) -> ProduceVerdict:
    known = known_code(code)
    return _VERDICTS.get(known) or (ProduceVerdict.AGAIN if is_retriable(known) else ProduceVerdict.REFUSED)


def read_answer(answer: ProduceResponse) -> PartitionProduceResponse:
    """Of the one partition that was asked for."""
    return answer.responses[0].partition_responses[0]


def read_place(answer: PartitionProduceResponse) -> Appended:
    if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return NOT_TOLD
    return Appended(answer.base_offset, answer.log_append_time_ms)


def read_error(answer: PartitionProduceResponse) -> ApiError:
    records = [(each.batch_index, each.batch_index_error_message or "") for each in answer.record_errors]
    return error_of(answer.error_code, answer.error_message, records)
