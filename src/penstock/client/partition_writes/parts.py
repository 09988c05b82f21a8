"""Batches whose parts belong to different people: nobody answers for the records of others.

The parts go as one batch. A broker refuses a batch as a whole, also where one record is at fault. The halves take its
place then, and so on down to single parts: for one bad part among n that is about 2 log n requests. Batches behind wait
meanwhile (see `partition_writer`), so the order in the partition is that of the calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from penstock.client.batches.batch_builder import RecordFields, prepare_batch
from penstock.client.partition_writes.outcomes import Appended
from penstock.client.partition_writes.partition_writer import ProducerBatch
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError

Part: TypeAlias = Sequence[RecordFields]
PartOutcome: TypeAlias = Appended | ApiError | OSError


def splitting(
    parts: Sequence[Part], deadline: float, now_ms: int, codec: Codec
) -> Callable[[], tuple[ProducerBatch, ProducerBatch]] | None:
    """Makes the halves of a batch; None for a single part."""
    if len(parts) == 1:
        return None
    middle = len(parts) // 2

    def half(chosen: Sequence[Part]) -> ProducerBatch:
        records = [record for part in chosen for record in part]
        batch = ProducerBatch(
            asyncio.get_running_loop().create_future(), deadline, prepare_batch(records, now_ms, codec)
        )
        batch.split = splitting(chosen, deadline, now_ms, codec)
        return batch

    return lambda: (half(parts[:middle]), half(parts[middle:]))


async def outcomes_of(batch: ProducerBatch, parts: Sequence[Part]) -> list[PartOutcome]:
    """One for each part, when all of them are known."""
    try:
        offset, timestamp_ms = await batch.done
    except (ApiError, OSError) as error:
        if batch.halves is None:
            return [error] * len(parts)
        first, second = batch.halves
        middle = len(parts) // 2
        return [*await outcomes_of(first, parts[:middle]), *await outcomes_of(second, parts[middle:])]
    found: list[PartOutcome] = []
    for part in parts:
        found.append(Appended(offset, timestamp_ms))
        if offset >= 0:  # otherwise the broker does not tell
            offset += len(part)
    return found
