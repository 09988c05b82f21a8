"""Quotas at work on a whole broker without sockets, in the time of a clock that the test moves."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
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
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.security.quotas.sensors import MAX_SENSORS
from tests.clients.raw.wire import build_batch
from tests.unit.broker.served import Served, decode_reply, encode_frame, serving

TOPIC = "orders"
PRODUCE, FETCH, REQUEST, MUTATION = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)


class Answer(NamedTuple):
    response: Any
    muted_ms: int


class Client:
    def __init__(self, served: Served, user: str, client_id: str | None) -> None:
        self._served = served
        self.client_id = client_id
        self.session = Session("1", "10.0.0.1", "PLAINTEXT", Principal("User", user))
        self.sent = 0

    async def ask(self, request: Message, version: int) -> Answer:
        frame = encode_frame(request, version, self.client_id)
        self.sent += len(frame) + 4
        found: Outcome | Awaitable[Outcome] = self._served.server.limiting.handle(self.session, frame)
        outcome = found if found is None or isinstance(found, list | Throttled) else await found
        muted_ms = 0
        if isinstance(outcome, Throttled):
            muted_ms, outcome = outcome.throttle_ms, outcome.reply
        if outcome is None:
            return Answer(None, muted_ms)
        response = decode_reply(outcome, request.RESPONSE, version)
        assert getattr(response, "throttle_time_ms", muted_ms) == muted_ms
        return Answer(response, muted_ms)

    def _served_batch(self, size: int) -> bytes:
        return build_batch([bytes(size)], timestamp=self._served.clock.now_ms())

    async def produce(self, size: int, version: int = 12, acks: int = 1, topic: str = TOPIC) -> Answer:
        data = PartitionProduceData(index=0, records=self._served_batch(size))
        request = ProduceRequest(
            acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        return await self.ask(request, version)

    async def fetch(self, offset: int = 0, *, most: int = 1 << 30, version: int = 12, **fields: Any) -> Answer:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=most, current_leader_epoch=-1)
        fields = {"session_epoch": -1, "replica_id": -1, **fields}
        return await self.ask(
            FetchRequest(max_bytes=most, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])], **fields), version
        )


class Scene:
    def __init__(self, served: Served) -> None:
        self.served = served
        self.clock = served.clock
        self.quotas = served.broker.quotas

    def client(self, user: str = "alice", client_id: str | None = "app") -> Client:
        return Client(self.served, user, client_id)

    async def limit(self, entity: Mapping[str, str | None], **values: float | None) -> None:
        entry = AlterClientQuotasRequestEntryData(
            entity=[
                AlterClientQuotasRequestEntityData(entity_type=each.replace("_", "-"), entity_name=name)
                for each, name in entity.items()
            ],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
        )
        response = await self.served.ask(AlterClientQuotasRequest(entries=[entry]), 1)
        assert [each.error_code for each in response.entries] == [ErrorCode.NONE]


def in_scene(tmp_path: Path, scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with _scene(tmp_path) as scene:
            await scenario(scene)

    asyncio.run(run())


@asynccontextmanager
async def _scene(directory: Path) -> AsyncIterator[Scene]:
    async with serving(directory, {"offsets.topic.num.partitions": "1"}) as served:
        await served.create(TOPIC)
        yield Scene(served)


def records_size(response: Any) -> int:
    return sum(len(each.records or b"") for topic in response.responses for each in topic.partitions)


class TestWithoutQuotas:
    def test_sockets_call_dispatch_itself_when_there_is_no_quota_or_none_any_more(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            server = scene.served.server
            assert server.limiting.handle == server.dispatcher.handle
            await scene.limit({"user": "alice"}, producer_byte_rate=10)
            assert server.limiting.handle != server.dispatcher.handle
            assert server.dispatcher.before_reply is not None
            await scene.limit({"user": "alice"}, producer_byte_rate=None)
            assert server.limiting.handle == server.dispatcher.handle
            assert server.dispatcher.before_reply is None

        in_scene(tmp_path, scenario)

    def test_client_is_not_throttled_when_the_quota_is_for_another(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "bob"}, producer_byte_rate=1, consumer_byte_rate=1, request_percentage=0.001)
            assert (await scene.client("alice").produce(10_000)).muted_ms == 0
            assert (await scene.client("alice").fetch()).muted_ms == 0

        in_scene(tmp_path, scenario)


class TestProduce:
    @pytest.mark.parametrize("version", range(3, 14))
    def test_reply_says_how_long_the_client_is_held_back(self, tmp_path: Path, version: int) -> None:
        """Versions up to 12 take the shortcut past the encoder."""

        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, producer_byte_rate=1_000)
            client = scene.client()
            topic = scene.served.broker.metadata.image.topics[TOPIC]
            data = PartitionProduceData(index=0, records=build_batch([bytes(20_000)], timestamp=scene.clock.now_ms()))
            written = TopicProduceData(name=TOPIC, topic_id=topic.topic_id, partition_data=[data])
            answer = await client.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[written]), version)
            assert answer.muted_ms == client.sent - 1_000
            (partition,) = answer.response.responses[0].partition_responses
            assert (partition.error_code, partition.base_offset) == (0, 0)

        in_scene(tmp_path, scenario)

    def test_bytes_count_and_the_client_is_held_back_when_it_wants_no_acknowledgement(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, producer_byte_rate=1_000)
            client = scene.client()
            answer = await client.produce(20_000, acks=0)
            assert (answer.response, answer.muted_ms) == (None, client.sent - 1_000)

        in_scene(tmp_path, scenario)

    def test_refused_write_counts_as_well(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, producer_byte_rate=1_000)
            answer = await scene.client().produce(20_000, topic="missing")
            assert answer.muted_ms > 0
            assert answer.response.responses[0].partition_responses[0].error_code == 3

        in_scene(tmp_path, scenario)

    def test_rate_is_the_bound_for_several_clients_at_once_over_half_a_minute(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            bounds = {"alice": 20_000, "bob": 50_000, "carol": 120_000}
            for user, bound in bounds.items():
                await scene.limit({"user": user}, producer_byte_rate=bound)
            clients = {user: scene.client(user) for user in bounds}
            due_ms = dict.fromkeys(bounds, 0)
            for now_ms in range(0, 30_000, 20):
                for user, client in clients.items():
                    if due_ms[user] <= now_ms:
                        due_ms[user] = now_ms + (await client.produce(4_000)).muted_ms
                scene.clock.advance(20)
            for user, bound in bounds.items():
                assert clients[user].sent / 30 == pytest.approx(bound, rel=0.1), user

        in_scene(tmp_path, scenario)

    def test_clients_of_a_user_share_its_quota(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, producer_byte_rate=1_000)
            assert (await scene.client(client_id="a").produce(500)).muted_ms == 0
            assert (await scene.client(client_id="b").produce(500)).muted_ms > 0

        in_scene(tmp_path, scenario)


class TestFetch:
    def test_throttled_fetch_is_empty_and_does_not_count(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            client = scene.client()
            for _ in range(4):
                await client.produce(1_500)
            await scene.limit({"user": "alice"}, consumer_byte_rate=1_000)
            first = await client.fetch(0, most=1_700)
            assert (records_size(first.response) > 1_500, first.muted_ms) == (True, 0)
            for _ in range(3):
                answer = await client.fetch(1, most=1_700)
                assert (answer.response.responses, answer.response.error_code) == ([], 0)
                assert answer.muted_ms == records_size(first.response) - 1_000
            scene.clock.advance(1_000 + answer.muted_ms)
            assert records_size((await client.fetch(1, most=1_700)).response) > 1_500

        in_scene(tmp_path, scenario)

    def test_fetch_brings_no_more_than_a_second_of_the_quota(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            client = scene.client()
            for _ in range(20):
                await client.produce(1_000)
            await scene.limit({"user": "alice"}, consumer_byte_rate=3_000)
            answer = await client.fetch(0)
            assert 2_000 < records_size(answer.response) <= 3_000
            assert answer.muted_ms == 0

        in_scene(tmp_path, scenario)

    def test_batch_larger_than_the_quota_is_given_to_a_client_that_has_waited(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            client = scene.client()
            await client.produce(6_000)
            await scene.limit({"user": "alice"}, consumer_byte_rate=100)
            size = records_size((await client.fetch(0)).response)
            again = await client.fetch(0)
            assert (size > 6_000, records_size(again.response), again.muted_ms) == (True, 0, 10 * size - 1_000)

        in_scene(tmp_path, scenario)

    def test_rate_is_the_bound_for_several_clients_at_once_over_half_a_minute(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            writer = scene.client()
            for _ in range(100):
                await writer.produce(4_000)
            bounds = {"alice": 10_000, "bob": 50_000, "carol": 120_000}
            for user, bound in bounds.items():
                await scene.limit({"user": user}, consumer_byte_rate=bound)
            clients = {user: scene.client(user) for user in bounds}
            due_ms, received = dict.fromkeys(bounds, 0), dict.fromkeys(bounds, 0)
            for now_ms in range(0, 30_000, 20):
                for user, client in clients.items():
                    if due_ms[user] <= now_ms:
                        answer = await client.fetch(0, most=50_000)
                        due_ms[user] = now_ms + answer.muted_ms
                        received[user] += records_size(answer.response)
                scene.clock.advance(20)
            for user, bound in bounds.items():
                assert received[user] / 30 == pytest.approx(bound, rel=0.1), user

        in_scene(tmp_path, scenario)

    def test_session_goes_on_when_a_fetch_of_it_is_throttled(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            client = scene.client()
            for _ in range(4):
                await client.produce(6_000)
            await scene.limit({"user": "alice"}, consumer_byte_rate=3_500)
            begun = await client.fetch(0, most=7_000, session_epoch=0)
            session_id = begun.response.session_id
            throttled = await client.fetch(1, most=7_000, session_id=session_id, session_epoch=1)
            assert throttled.muted_ms > 0
            assert (throttled.response.session_id, throttled.response.responses) == (session_id, [])
            await scene.limit({"user": "alice"}, consumer_byte_rate=None)
            after = await client.fetch(1, most=7_000, session_id=session_id, session_epoch=2)
            assert records_size(after.response) > 6_000
            assert len(scene.served.broker.fetch_sessions) == 1

        in_scene(tmp_path, scenario)

    def test_no_session_begins_when_the_fetch_that_asks_for_it_is_throttled(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            client = scene.client()
            await client.produce(6_000)
            await scene.limit({"user": "alice"}, consumer_byte_rate=3_500)
            await client.fetch(0)
            answer = await client.fetch(0, session_epoch=0)
            assert (answer.response.session_id, answer.muted_ms > 0) == (0, True)
            assert len(scene.served.broker.fetch_sessions) == 0

        in_scene(tmp_path, scenario)

    def test_follower_is_exempt(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            client = scene.client()
            await client.produce(6_000)
            await scene.limit({"user": None}, consumer_byte_rate=1, request_percentage=1e-9)
            assert (await client.fetch(0)).muted_ms > 0
            assert (await client.fetch(0, replica_id=2)).muted_ms == 0

        in_scene(tmp_path, scenario)


class TestRequestTime:
    def test_any_request_is_held_back_for_a_second_at_most(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, request_percentage=1e-6)
            client = scene.client()
            named = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            for request, version in ((named, 12), (named, 9), (MetadataRequest(topics=None), 12)):
                assert 0 < (await client.ask(request, version)).muted_ms <= 1_000
            assert 0 < (await client.produce(10)).muted_ms <= 1_000
            assert (await client.produce(10, acks=0)).muted_ms == 0

        in_scene(tmp_path, scenario)


class TestChanges:
    @staticmethod
    def create(*names: str, partitions: int = 5) -> CreateTopicsRequest:
        topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
        return CreateTopicsRequest(topics=topics, timeout_ms=1_000)

    def test_topics_are_refused_when_the_bucket_is_empty_and_the_client_knows_the_error(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, controller_mutation_rate=0.5)  # 5.5 partitions at once
            client = scene.client()
            answer = await client.ask(self.create("a", "b", "c"), 7)
            throttling = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert [each.error_code for each in answer.response.topics] == [0, 0, throttling]
            assert answer.muted_ms == 9_000  # 4.5 partitions are missing
            refused = await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1_000), 6)
            assert refused.response.responses[0].error_code == throttling
            grown = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="b", count=6)], timeout_ms=1_000)
            assert (await client.ask(grown, 3)).response.results[0].error_code == throttling
            scene.clock.advance(9_000)
            assert (await client.ask(grown, 3)).response.results[0].error_code == 0

        in_scene(tmp_path, scenario)

    def test_topics_are_made_and_the_client_held_back_when_it_does_not_know_the_error(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, controller_mutation_rate=0.5)
            answer = await scene.client().ask(self.create("a", "b", "c"), 5)
            assert [each.error_code for each in answer.response.topics] == [0, 0, 0]
            assert answer.muted_ms == 19_000  # 9.5 partitions too many

        in_scene(tmp_path, scenario)

    def test_topic_that_comes_by_being_used_is_charged_and_waits_when_the_bucket_is_empty(self, tmp_path: Path) -> None:
        """As Kafka does: the client is told of a topic that is not there yet, and is not held back for asking."""

        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, controller_mutation_rate=0.5)  # 5.5 partitions at once
            client = scene.client()
            assert (await client.ask(self.create("a", partitions=6), 7)).response.topics[0].error_code == 0
            for count in (1, 600):  # the usual request, and one whose topics are looked for in slices
                asked = [MetadataRequestTopic(name=f"used-{count}-{number}") for number in range(count)]
                answer = await client.ask(MetadataRequest(topics=asked), 9)
                assert {each.error_code for each in answer.response.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
                assert answer.muted_ms == 0
            named = MetadataRequest(topics=[MetadataRequestTopic(name="used")])
            assert (await scene.client("bob").ask(named, 9)).response.topics[0].error_code == 0
            assert (await client.ask(named, 9)).response.topics[0].error_code == 0  # it is there, which costs nothing
            scene.clock.advance(1_000)
            (made,) = (await client.ask(MetadataRequest(topics=asked[:1]), 9)).response.topics
            assert (made.error_code, len(made.partitions)) == (0, 1)
            refused = await client.ask(self.create("b", partitions=1), 7)
            assert refused.response.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED

        in_scene(tmp_path, scenario)

    def test_nothing_is_charged_when_the_topic_is_refused(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, controller_mutation_rate=0.5)
            client = scene.client()
            for _ in range(20):
                answer = await client.ask(self.create(TOPIC), 7)
                assert answer.response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert (await client.ask(self.create("a"), 7)).response.topics[0].error_code == 0

        in_scene(tmp_path, scenario)


class TestMetrics:
    def test_operator_sees_whose_quota_is_used_up(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"user": "alice"}, producer_byte_rate=1_000)
            await scene.limit({"client_id": None}, producer_byte_rate=1 << 40)
            client = scene.client()
            await client.produce(20_000)
            await scene.client("bob", "invented").produce(10)
            now_ms = scene.clock.monotonic_ms()
            throttle_times = dict(scene.quotas.produce.throttle_times(now_ms))
            assert throttle_times == {("alice", ""): client.sent - 1_000, ("", "<default>"): 0}
            assert dict(scene.quotas.produce.rates(now_ms))["alice", ""] == client.sent
            assert scene.served.broker.metrics.quotas.throttled == {"producer_byte_rate": 1}

        in_scene(tmp_path, scenario)


class TestMemory:
    def test_nothing_grows_without_end_when_clients_invent_names(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"client_id": None}, producer_byte_rate=1 << 40, request_percentage=100_000)
            client = scene.client(client_id="x" * 20)
            record = PartitionProduceData(index=0, records=build_batch([b"r"], timestamp=scene.clock.now_ms()))
            written = TopicProduceData(name=TOPIC, partition_data=[record])
            frame = encode_frame(ProduceRequest(acks=1, topic_data=[written]), 12, client.client_id)
            for number in range(MAX_SENSORS + 2_000):
                scene.served.server.limiting.handle(client.session, frame.replace(b"x" * 20, b"%020d" % number))
            for sensors in (scene.quotas.produce.sensors, scene.quotas.request.sensors):
                assert (len(sensors), sensors.evictions) == (MAX_SENSORS, 2_000)
            assert len(list(scene.quotas.request.rates(scene.clock.monotonic_ms()))) == 1

        in_scene(tmp_path, scenario)

    def test_names_are_forgotten_when_their_windows_are_over(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"client_id": None}, producer_byte_rate=1 << 40)
            for number in range(100):
                await scene.client(client_id=f"old-{number}").produce(1)
            scene.clock.advance(11_000)
            for number in range(60):
                await scene.client(client_id=f"new-{number}").produce(1)
            assert len(scene.quotas.produce.sensors) == 60

        in_scene(tmp_path, scenario)

    def test_a_long_client_id_takes_no_more_than_a_short_one(self, tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.limit({"client_id": None}, producer_byte_rate=1 << 40)
            await scene.client(client_id="y" * 30_000).produce(1)
            (key,) = scene.quotas.produce.sensors._sensors
            assert sum(map(sys.getsizeof, key)) < 1_000

        in_scene(tmp_path, scenario)
