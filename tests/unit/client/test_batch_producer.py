"""Writers of a producer: one for each partition, however many there are."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from penstock.client.batch_producer import BatchProducer
from penstock.client.batches.batch_builder import NewRecord
from penstock.client.brokers import Brokers
from penstock.protocol.message import Message
from tests.own_time import pass_time, run_in_own_time
from tests.unit.client.partition_model import LinkModel, PartitionModel


class Asked(PartitionModel):
    """Partition 0 has no leader for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def ask(self, message: Message, *, timeout_s: float, retry: bool) -> Any:
        self.asked += 1
        return await super().ask(message, timeout_s=timeout_s, retry=retry)

    async def connect_leader(self, topic: str, partition: int) -> LinkModel:
        if partition == 0:
            await pass_time(5.0)
        return await super().connect_leader(topic, partition)


def test_partition_has_one_writer_when_all_others_are_busy() -> None:
    async def run() -> None:
        partition = Asked()
        producer = BatchProducer(cast("Brokers", partition), most_partitions=1)
        calls = [
            asyncio.create_task(producer.produce("t", number, [NewRecord(value=b"%d" % index)]))
            for index, number in enumerate((0, 1, 1, 1))
        ]
        await asyncio.gather(*calls)
        assert partition.asked == 2  # a producer id for each partition
        assert partition.log == [b"1", b"2", b"3", b"0"]
        await producer.produce("t", 2, [NewRecord(value=b"4")])
        assert partition.asked == 3
        await producer.close()

    run_in_own_time(run())
