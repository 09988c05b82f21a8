"""Streams of records without a broker: order, back-pressure, and the ways in which they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from penstock.client.connection.login import LoginRefusedError
from penstock.rest.errors import RestError
from penstock.rest.formats.payloads import Payloads
from penstock.rest.inflight_bytes import InflightBytes
from penstock.rest.record_producer import Outcome, Outgoing, Written
from penstock.rest.settings import RestSettings
from penstock.rest.v3.rates import Rates
from penstock.rest.v3.records.record_writer import Target
from penstock.rest.v3.records.streaming import RecordStream, StreamLimits
from penstock.testing.clock import ManualClock

LIMITS = StreamLimits(most_bytes=1000, longest_ms=3_600_000, idle_ms=3_600_000)
RECORD = b'{"value":{"type":"STRING","data":"x"}}'


class _Writer:
    """Writes when it is let."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.calls: list[asyncio.Event] = []
        self._is_open = is_open
        self._next_offset = 0

    async def count_partitions(self, topic: str) -> int:
        return 1

    async def produce(self, topic: str, records: Sequence[Outgoing]) -> list[Outcome]:
        event = asyncio.Event()
        self.calls.append(event)
        begin = self._next_offset
        self._next_offset += len(records)
        if self._is_open:
            event.set()
        await event.wait()
        return [Written(0, begin + each, -1) for each in range(len(records))]


class _Right:
    may_choose_subject = True

    async def check_write(self) -> None: ...


class _Client:
    """What a client sends, and how much of it was read."""

    def __init__(self, chunks: Sequence[bytes], *, is_ended: bool = True) -> None:
        self._chunks = chunks
        self._is_ended = is_ended
        self.read = 0
        self.is_closed = False

    async def stream(self) -> AsyncGenerator[bytes]:
        try:
            for chunk in self._chunks:
                self.read += 1
                yield chunk
            if not self._is_ended:
                await asyncio.Event().wait()
        finally:
            self.is_closed = True


class _Scene:
    def __init__(self, writer: _Writer, limits: StreamLimits = LIMITS, most_under_way: int = 1_000_000) -> None:
        self.clock = ManualClock()
        rates = Rates(RestSettings.of({}), self.clock)
        target = Target("cluster", "topic", "caller", writer, Payloads(), _Right(), rates, self.clock)
        self.inflight_bytes = InflightBytes(most_under_way)
        self.running: set[asyncio.Task[bytes]] = set()
        self.stream = RecordStream(target, self.inflight_bytes, limits, self.running)

    async def all_answers(self, client: _Client) -> list[dict[str, Any]]:
        out = b"".join([each async for each in self.stream.answers(client.stream())])
        return [json.loads(line) for line in out.splitlines()]


async def _settle() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


def test_answers_keep_their_order_when_later_records_are_written_first() -> None:
    async def run() -> None:
        writer = _Writer(is_open=False)
        scene = _Scene(writer)
        collecting = asyncio.create_task(scene.all_answers(_Client([RECORD, RECORD * 2, RECORD])))
        await _settle()
        assert len(writer.calls) == 3
        for event in reversed(writer.calls):
            event.set()
            await _settle()
        assert [each["offset"] for each in await collecting] == [0, 1, 2, 3]
        assert (scene.inflight_bytes.sending, scene.inflight_bytes.reading) == (0, 0)

    asyncio.run(run())


def test_nothing_more_is_read_when_the_client_does_not_take_its_answers() -> None:
    async def run() -> None:
        client = _Client([RECORD] * 1000)
        scene = _Scene(_Writer())
        answers = scene.stream.answers(client.stream())
        await anext(answers)
        await _settle()
        assert client.read < 10
        held = client.read
        for _ in range(20):
            await anext(answers)
        await _settle()
        assert held < client.read < 30
        await answers.aclose()
        await _settle()
        assert client.is_closed
        assert (scene.inflight_bytes.sending, len(scene.running)) == (0, 0)

    asyncio.run(run())


def test_nothing_more_is_read_when_brokers_do_not_answer() -> None:
    async def run() -> None:
        writer, client = _Writer(is_open=False), _Client([RECORD] * 1000)
        scene = _Scene(writer)
        collecting = asyncio.create_task(scene.all_answers(client))
        await _settle()
        assert client.read < 10
        collecting.cancel()
        await _settle()
        assert client.is_closed
        for event in writer.calls:  # what is on its way arrives
            event.set()
        await _settle()
        assert not scene.running

    asyncio.run(run())


def test_a_record_is_refused_when_all_callers_together_have_begun_too_much() -> None:
    async def run() -> None:
        scene = _Scene(_Writer(), LIMITS._replace(most_bytes=10_000), most_under_way=500)
        told = await scene.all_answers(_Client([RECORD, b'{"a":"' + b"x" * 600, b'"}']))
        assert [each["error_code"] for each in told] == [200, 42901]
        assert (scene.inflight_bytes.sending, scene.inflight_bytes.reading) == (0, 0)

    asyncio.run(run())


def test_a_stream_ends_with_408_when_its_time_is_over() -> None:
    async def run() -> None:
        scene = _Scene(_Writer(), LIMITS._replace(longest_ms=1000))

        async def chunks() -> AsyncGenerator[bytes]:
            yield RECORD
            scene.clock.advance(1001)
            yield RECORD
            await asyncio.Event().wait()

        answers = [each async for each in scene.stream.answers(chunks())]
        codes = [json.loads(line)["error_code"] for line in b"".join(answers).splitlines()]
        assert codes == [200, 200, 408]

    asyncio.run(run())


def test_a_stream_says_so_when_the_topic_is_gone() -> None:
    class Gone(_Writer):
        async def count_partitions(self, topic: str) -> int:
            raise RestError(40401, "there is no such topic")

    told = asyncio.run(_Scene(Gone()).all_answers(_Client([RECORD, RECORD])))
    assert [each["error_code"] for each in told] == [40401, 40401]


def test_others_have_their_turns_when_a_chunk_has_many_records() -> None:
    async def run() -> None:
        scene = _Scene(_Writer())
        collecting = asyncio.create_task(scene.all_answers(_Client([RECORD * 1000])))
        turns = 0
        while not collecting.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(await collecting) == 1000
        assert turns > 15

    asyncio.run(run())


@pytest.mark.parametrize(
    ("failure", "code"), [(OSError(), 50302), (LoginRefusedError("no"), 40101), (TimeoutError(), 50003)]
)
def test_each_record_has_its_code_when_brokers_are_away(failure: OSError, code: int) -> None:
    class Away(_Writer):
        async def count_partitions(self, topic: str) -> int:
            raise failure

    told = asyncio.run(_Scene(Away()).all_answers(_Client([RECORD, RECORD * 2])))
    assert [each["error_code"] for each in told] == [code] * 3
