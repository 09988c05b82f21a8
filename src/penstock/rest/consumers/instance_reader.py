"""Fetches for one consumer instance, into its positions.

A fetch waits inside of a broker for one partition only, so several partitions take turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.client.brokers import Brokers
from penstock.client.partition_fetch import EARLIEST, LATEST, Fetched, fetch, offset_of
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.rest.consumers.committed_offsets import fetch_committed
from penstock.rest.consumers.positions import Positions
from penstock.rest.consumers.settings import InstanceSettings, Reset
from penstock.rest.errors import ILLEGAL_STATE, RestError

_FETCH_BYTES = 1024 * 1024
_AT_ONCE = 8  # partitions that are asked at a time
_LONGEST_FETCH_WAIT_S = 0.5  # so that a change of the partitions is noticed


class ConsumerReader:
    def __init__(self, group: str, settings: InstanceSettings, brokers: Brokers, positions: Positions) -> None:
        self._group = group
        self._settings = settings
        self._brokers = brokers
        self._own = brokers.dedicated()  # fetches wait inside of a broker
        self._positions = positions

    async def close(self) -> None:
        await self._own.close()

    async def fill(self, max_bytes: int, deadline: float) -> None:
        """Fetches from partitions until there is enough for an answer, or all of them were asked."""
        await self._settle()
        turn = self._positions.next_turn()
        wanted = [each for each in turn if not self._positions.has_kept(each[0])]
        has_one = len(turn) == 1 and self._settings.min_bytes <= 1
        wait_s = max(0.0, min(deadline - asyncio.get_running_loop().time(), _LONGEST_FETCH_WAIT_S)) if has_one else 0.0
        for start in range(0, len(wanted), _AT_ONCE):
            if self._positions.kept_bytes >= max_bytes:
                return
            epoch = self._positions.epoch
            part = wanted[start : start + _AT_ONCE]
            fetched = await asyncio.gather(*(self._fetch(*each, wait_s) for each in part))
            if self._positions.epoch != epoch:
                return
            for (partition, _), found in zip(part, fetched, strict=True):
                if found is not None:
                    self._positions.keep(partition, found.records, found.next_offset)

    async def _fetch(self, partition: TopicPartition, offset: int, wait_s: float) -> Fetched | None:
        try:
            return await fetch(
                self._own, *partition, offset, max_bytes=_FETCH_BYTES, wait_ms=int(wait_s * 1000), committed=True
            )
        except ApiError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._reset([partition])
            elif error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted: the others are read on
                raise
        return None

    async def _settle(self) -> None:
        """Finds the start of the read: the committed offset of the group, or the offset of the setting."""
        unsettled = self._positions.unsettled
        if not unsettled:
            return
        epoch = self._positions.epoch
        committed = await fetch_committed(self._brokers, self._group, unsettled)
        if self._positions.epoch != epoch:
            return
        for partition, found in committed.items():
            self._positions.settle(partition, found.offset)
        await self._reset([each for each in unsettled if each not in committed])

    async def _reset(self, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        if self._settings.reset is Reset.NONE:
            raise RestError(ILLEGAL_STATE, f"nothing to begin with in {partitions[0]}, and auto.offset.reset is none")
        await self.seek_to(partitions, EARLIEST if self._settings.reset is Reset.EARLIEST else LATEST)

    async def seek_to(self, partitions: Sequence[TopicPartition], place: int) -> None:
        epoch = self._positions.epoch
        offsets = await asyncio.gather(*(offset_of(self._brokers, *each, place, committed=True) for each in partitions))
        if self._positions.epoch == epoch:
            for partition, offset in zip(partitions, offsets, strict=True):
                self._positions.settle(partition, offset)
