"""Reads from a log: records from an offset on, offsets by time, and aborted transactions."""

from __future__ import annotations

from penstock.log.log_reads import positions
from penstock.log.log_reads.positions import TimestampedOffset
from penstock.log.state.contents import LogContents
from penstock.log.state.replay import rebuild_transaction_index
from penstock.log.state.transaction_index import AbortedTransaction, TransactionIndex
from penstock.log.storage.files import FileSlice
from penstock.log.storage.scan import CorruptLogError
from penstock.protocol.errors import ApiError, ErrorCode


class LogReader:
    __slots__ = ("_contents",)

    def __init__(self, contents: LogContents) -> None:
        self._contents = contents

    def read(self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool) -> FileSlice | None:
        """Reads from the batch that holds `offset` on; None when there is nothing below `limit_offset`, or it does not
        fit.
        """
        contents = self._contents
        if contents.availability.offline_reason is not None:
            contents.availability.check_online()
        end_offset = contents.log_end_offset
        if not contents.log_start_offset <= offset <= end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{contents.topic_partition} holds [{contents.log_start_offset}, {end_offset}), not {offset}",
            )
        if offset == end_offset:
            return None
        try:
            return positions.read_slice(contents.segments, offset, max_bytes, limit_offset, end_offset, at_least_one)
        except (OSError, CorruptLogError) as error:
            raise contents.availability.refuse("reading", error) from error

    def find_by_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        contents = self._contents
        contents.availability.check_online()
        with contents.availability.storage_errors("searching by timestamp", is_repeatable=True):
            return positions.find_by_timestamp(contents.segments, timestamp, contents.log_start_offset)

    def find_max_timestamp(self) -> TimestampedOffset | None:
        contents = self._contents
        contents.availability.check_online()
        with contents.availability.storage_errors("searching by timestamp", is_repeatable=True):
            return positions.find_max_timestamp(contents.segments)

    # ---- transactions

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The transactions with records or their marker in the range, by first offset; complete up to the last stable
        offset.
        """
        contents = self._contents
        if not contents.aborted:
            return []
        contents.availability.check_online()
        first_segment = contents.segments.from_offset(start_offset)[0].base_offset
        with contents.availability.storage_errors("searching for aborted transactions", is_repeatable=True):
            return contents.aborted.collect(first_segment, start_offset, end_offset, self._rebuild_transaction_index)

    def aborted_transactions_in(self, offset: int, records: FileSlice) -> list[AbortedTransaction]:
        """The transactions that a reader of `records`, which were read from `offset` on, must leave out.

        Costs 0.1 us as long as no transaction was ever aborted in the log.
        """
        contents = self._contents
        if not contents.aborted:
            return []
        with contents.availability.storage_errors("searching for aborted transactions", is_repeatable=True):
            end_offset = positions.find_end_offset(contents.segments, offset, records, contents.log_end_offset)
        return self.aborted_transactions(offset, min(end_offset, contents.last_stable_offset))

    def _rebuild_transaction_index(self, base_offset: int) -> TransactionIndex:
        contents = self._contents
        return rebuild_transaction_index(base_offset, contents.topic_partition, contents.snapshots, contents.segments)
