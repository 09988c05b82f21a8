"""The brokers' side alone: a client without patience, back-off or metadata, which writes wherever it is taken.

One task for each partition writes a record after the other with acks=all to the broker that took the last one. An error
sends it to the leader that the answer names, else to the next broker, after a few milliseconds. So the time until all
partitions are taken again is what the brokers need, and the errors are what a client would see on the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Mapping

from penstock.client.addresses import Address
from penstock.client.connection import Connection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.records import Record, build_batch

_PRODUCE_VERSION = 10  # the first that names the leader, and the topic by its name
_INTERVAL_S = 0.05  # while all is well: the brokers have little to do beside it
_RETRY_S = 0.005
# A broker that is paused or cut off never answers; the next one is asked then.
_PATIENCE_S = 0.25
_ENDED = "connection ended"


class Probe:
    def __init__(self, addresses: Mapping[int, Address], topic: str, leaders: Mapping[int, int]) -> None:
        """`leaders` are the partitions to write to, with who leads each one now."""
        self._addresses = addresses
        self._nodes = sorted(addresses)
        self._topic = topic
        self._leaders = leaders
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="probe", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = asyncio.Event()
        self._stopped = asyncio.Event()
        self._since = float("inf")
        self.first_acks: dict[int, float] = {}
        self.acked_partitions: set[int] = set()
        self.longest_s = 0.0  # that a record waited, over all its tries
        self.errors: Counter[str] = Counter()  # after the fault
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def begin(self) -> None:
        """From now on writes count; every partition is written to at once."""
        self._since = time.monotonic()
        assert self._loop is not None, "the probe is warm"
        self._loop.call_soon_threadsafe(self._begun.set)

    @property
    def is_warm(self) -> bool:
        return len(self.acked_partitions) == len(self._leaders)

    @property
    def has_recovered(self) -> bool:
        return len(self.first_acks) == len(self._leaders)

    def stop(self) -> None:
        if self._loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has failed meanwhile
                self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(self._write_on(each, leader)) for each, leader in self._leaders.items()]
        stopping = asyncio.create_task(self._stopped.wait())
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in (*tasks, stopping):
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        self.failure = next((each for each in results if isinstance(each, Exception)), None)

    async def _write_on(self, partition: int, node: int) -> None:
        batch = build_batch([Record(value=b"x", timestamp=0)])
        data = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
        connection: Connection | None = None
        written = time.monotonic()
        try:
            while not self._stopped.is_set():  # closing a connection may swallow a cancellation
                sent = time.monotonic()
                try:
                    if connection is None:
                        connection = await Connection.open(*self._addresses[node], timeout_s=_PATIENCE_S)
                    answer: ProduceResponse = await connection.request(request, _PRODUCE_VERSION, timeout_s=_PATIENCE_S)
                except OSError:
                    self._note_error(_ENDED)
                    target = self._after(node)
                else:
                    (told,) = answer.responses[0].partition_responses
                    if told.error_code == ErrorCode.NONE:
                        self._note_ack(partition, sent, written)
                        await self._rest()
                        written = time.monotonic()
                        continue
                    self._note_error(ErrorCode(told.error_code).name)
                    target = self._next_target(node, told)
                if connection is not None:
                    await _close(connection)
                    connection = None
                node = target
                await asyncio.sleep(_RETRY_S)
        finally:
            if connection is not None:
                await _close(connection)

    async def _rest(self) -> None:
        if self._begun.is_set():
            await asyncio.sleep(_INTERVAL_S)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_S):
                    await self._begun.wait()

    def _next_target(self, node: int, told: PartitionProduceResponse) -> int:
        leader = -1 if told.current_leader is None else told.current_leader.leader_id
        return leader if leader in self._addresses and leader != node else self._after(node)

    def _after(self, node: int) -> int:
        return self._nodes[(self._nodes.index(node) + 1) % len(self._nodes)]

    def _note_error(self, name: str) -> None:
        if time.monotonic() >= self._since:
            self.errors[name] += 1

    def _note_ack(self, partition: int, sent: float, written: float) -> None:
        self.acked_partitions.add(partition)
        now = time.monotonic()
        if sent >= self._since:
            self.first_acks.setdefault(partition, now)
        if now >= self._since:
            self.longest_s = max(self.longest_s, now - max(written, self._since))


async def _close(connection: Connection) -> None:
    with contextlib.suppress(OSError):
        await connection.close()
