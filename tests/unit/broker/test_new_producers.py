"""Producer ids that are new to a partition, on a whole broker without sockets, in the time of a clock that the test
moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.broker.session import Outcome, Principal, Session, Throttled
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.clients.raw.wire import build_batch
from tests.unit.broker.served import Served, decode_reply, encode_frame, serving

TOPIC = "orders"
# Ten at once, and one a second: 30 more are only delayed.
AT_ONCE, OWED = 10, 30
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "penstock.producer.ids.rate": "1",
    "penstock.producer.id.quota.window.num": "1",
    "penstock.producer.id.quota.window.size.seconds": str(AT_ONCE),
}


class Written(NamedTuple):
    code: ErrorCode
    base_offset: int
    delay_ms: int


class Scene:
    def __init__(self, served: Served) -> None:
        self.served = served
        self.clock = served.clock

    async def ask(self, user: str, request: Message, version: int, host: str = "10.0.0.1") -> tuple[Any, int]:
        """The answer, and how long the connection is left unread."""
        session = Session("1", host, "PLAINTEXT", Principal("User", user))
        found: Outcome | Awaitable[Outcome]
        found = self.served.server.limiting.handle(session, encode_frame(request, version))
        outcome = found if found is None or isinstance(found, list | Throttled) else await found
        delay_ms = 0
        if isinstance(outcome, Throttled):
            delay_ms, outcome = outcome.throttle_ms, outcome.reply
        response = decode_reply(outcome, request.RESPONSE, version)
        assert response.throttle_time_ms == delay_ms
        return response, delay_ms

    async def write(
        self, user: str, producer_id: int, sequence: int = 0, *, version: int = 9, host: str = "10.0.0.1"
    ) -> Written:
        batch = build_batch(
            [b"v"], producer_id=producer_id, producer_epoch=0, sequence=sequence, timestamp=self.clock.now_ms()
        )
        data = [PartitionProduceData(index=0, records=batch)]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        response, delay_ms = await self.ask(user, ProduceRequest(acks=1, topic_data=topics), version, host)
        (answer,) = response.responses[0].partition_responses
        return Written(ErrorCode(answer.error_code), answer.base_offset, delay_ms)

    async def use_up(self, user: str, count: int, host: str = "10.0.0.1") -> list[Written]:
        first = 1_000_000 + self.known
        return [await self.write(user, first + number, host=host) for number in range(count)]

    async def set_quota(self, entity: Mapping[str, str | None], rate: float) -> ErrorCode:
        entry = AlterClientQuotasRequestEntryData(
            entity=[AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=n) for kind, n in entity.items()],
            ops=[OpData(key="producer_ids_rate", value=rate)],
        )
        response = await self.served.ask(AlterClientQuotasRequest(entries=[entry]), 1)
        return ErrorCode(response.entries[0].error_code)

    @property
    def known(self) -> int:
        partition = self.served.broker.partitions.find(TOPIC, 0)
        assert partition is not None
        return len(partition.log.producers.entries)

    def is_in_the_way(self) -> bool:
        return self.served.server.limiting.handle != self.served.server.dispatcher.handle


def in_scene(path: Path, scenario: Callable[[Scene], Awaitable[None]], **config: str) -> None:
    async def run() -> None:
        properties = CONFIG | {key.replace("_", "."): value for key, value in config.items()}
        async with serving(path, properties) as served:
            await served.create(TOPIC)
            await scenario(Scene(served))

    asyncio.run(run())


@pytest.mark.parametrize("version", [9, 3])
def test_user_is_delayed_for_new_ids_alone_when_it_brings_more_than_it_may(tmp_path: Path, version: int) -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.write("alice", 7, version=version) == (ErrorCode.NONE, 0, 0)
        written = await scene.use_up("alice", AT_ONCE + 1)
        assert [each.code for each in written] == [ErrorCode.NONE] * (AT_ONCE + 1)
        assert [each.delay_ms for each in written] == [0] * AT_ONCE + [2_000]  # the first to owe lets the others in
        assert await scene.write("alice", 7, 1, version=version) == (ErrorCode.NONE, AT_ONCE + 2, 0)
        assert await scene.write("alice", 7, 0, version=version) == (ErrorCode.NONE, 0, 0)  # still known
        assert await scene.write("bob", 8, version=version) == (ErrorCode.NONE, AT_ONCE + 3, 0)

    in_scene(tmp_path, scenario)


def test_new_ids_are_refused_when_the_delay_was_dodged_and_nothing_known_is_forgotten(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.write("alice", 7)
        written = await scene.use_up("alice", 100)
        refused = [each for each in written if each.code]
        assert {each.code for each in refused} == {ErrorCode.NOT_ENOUGH_REPLICAS}
        assert {each.delay_ms for each in refused} == {30_000}
        assert scene.known == AT_ONCE + OWED
        assert await scene.write("alice", 7, 0) == (ErrorCode.NONE, 0, 0)
        assert (await scene.write("alice", 7, 1)).code is ErrorCode.NONE
        scene.clock.advance(1_000)
        assert [each.code.name for each in await scene.use_up("alice", 2)] == ["NONE", "NOT_ENOUGH_REPLICAS"]

    in_scene(tmp_path, scenario)


def test_requests_are_not_counted_any_more_when_nobody_owes_anything(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.use_up("alice", AT_ONCE)
        assert not scene.is_in_the_way()
        await scene.use_up("alice", 2)
        assert scene.is_in_the_way()
        scene.clock.advance(10_000)
        assert (await scene.write("bob", 8)).delay_ms == 0
        assert not scene.is_in_the_way()

    in_scene(tmp_path, scenario)


def test_addresses_count_by_themselves_when_nobody_logs_in(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.use_up("ANONYMOUS", 100)
        assert (await scene.use_up("ANONYMOUS", 1))[0].code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await scene.use_up("ANONYMOUS", 1, host="10.0.0.2"))[0] == (ErrorCode.NONE, AT_ONCE + OWED, 0)

    in_scene(tmp_path, scenario)


def test_quota_of_a_user_holds_when_there_is_one(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.set_quota({"user": "alice"}, 2.0) is ErrorCode.NONE
        await scene.use_up("alice", 200)
        assert scene.known == 2 * (AT_ONCE + OWED)
        await scene.use_up("bob", 200)
        assert scene.known == 3 * (AT_ONCE + OWED)
        for entity in ({"client-id": "app"}, {"user": "alice", "client-id": "app"}, {"ip": "10.0.0.1"}):
            assert await scene.set_quota(entity, 2.0) is ErrorCode.INVALID_REQUEST

    in_scene(tmp_path, scenario)


def test_nobody_is_delayed_when_the_rate_is_zero(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        assert {each[::2] for each in await scene.use_up("alice", 100)} == {(ErrorCode.NONE, 0)}

    in_scene(tmp_path, scenario, penstock_producer_ids_rate="0")


def test_new_transactional_ids_count_and_known_ones_do_not(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        async def begin(transactional_id: str) -> tuple[int, int]:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1_000)
            response, delay_ms = await scene.ask("alice", request, 4)
            return response.error_code, delay_ms

        await scene.served.ask(FindCoordinatorRequest(key="t", key_type=1), 3)
        for number in range(AT_ONCE + OWED):
            assert (await begin(f"t-{number}"))[0] == ErrorCode.NONE
        assert await begin("one-more") == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 30_000)
        assert await begin("t-0") == (ErrorCode.NONE, 0)
        assert (await scene.write("alice", 7)).code is ErrorCode.NOT_ENOUGH_REPLICAS

    in_scene(tmp_path, scenario)
