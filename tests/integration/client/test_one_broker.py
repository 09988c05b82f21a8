"""The client of a whole cluster against one broker, with clients of others as second readers and writers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import confluent_kafka
import kafka.partitioner.default
import pytest

import penstock
from penstock.client.addresses import parse_servers
from penstock.client.batch_producer import Appended, BatchProducer, NewRecord, partition_for
from penstock.client.brokers import Brokers, BrokersUnreachableError, CoordinatorKind, LoginRefusedError
from penstock.client.connection import ConnectionClosedError
from penstock.client.partition_fetch import EARLIEST, LATEST, fetch, offset_of
from penstock.client.security import client_security, kafka_properties
from penstock.client.transactional_writer import FencedError, TransactionalWriter
from penstock.embedded import AsyncBroker
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.testing.tcp_proxy import TcpProxy
from tests.integration.client.support import brokers_of, proxied_broker, read_values
from tests.shared_brokers import SHARED_BROKER


@pytest.fixture(scope="module")
def broker() -> Iterator[penstock.Broker]:
    with penstock.Broker(config=SHARED_BROKER) as running:
        yield running


class TestBrokers:
    def test_request_is_answered_whoever_is_asked(self, broker: penstock.Broker) -> None:
        broker.create_topic("asked", 3)

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                assert await asyncio.gather(*(brokers.partitions("asked") for _ in range(5))) == [3] * 5
                cluster = await brokers.ask(DescribeClusterRequest())
                node = cluster.brokers[0].broker_id
                for answer in (
                    await brokers.ask_node(node, DescribeClusterRequest()),
                    await brokers.ask_controller(DescribeClusterRequest()),
                    await brokers.ask_leader("asked", 2, DescribeClusterRequest()),
                ):
                    assert answer.cluster_id == cluster.cluster_id
                beat = HeartbeatRequest(group_id="nobody", member_id="x", generation_id=1)
                answer = await brokers.ask_coordinator(CoordinatorKind.GROUP, "nobody", beat)
                assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID

        asyncio.run(run())

    def test_error_says_what_is_unknown(self, broker: penstock.Broker) -> None:
        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                for wanted in (
                    brokers.partitions("unknown"),
                    brokers.ask_leader("unknown", 0, DescribeClusterRequest()),
                    fetch(brokers, "unknown", 0, 0),
                ):
                    with pytest.raises(ApiError) as refused:
                        await wanted
                    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                with pytest.raises(ApiError) as refused:
                    await brokers.ask_node(99, DescribeClusterRequest())
                assert refused.value.code == ErrorCode.BROKER_NOT_AVAILABLE
                assert (await brokers.metadata(["unknown"])).topics[
                    0
                ].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        asyncio.run(run())

    def test_topic_is_created_only_when_that_was_allowed(self, broker: penstock.Broker) -> None:
        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                with pytest.raises(ApiError):
                    await brokers.partitions("on-demand")
                assert await brokers.partitions("on-demand", may_create=True) == 1

        asyncio.run(run())

    def test_request_is_refused_here_when_no_broker_could_read_it(self, broker: penstock.Broker) -> None:
        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                for name in ("a" * 300, "\ud800", "t\u00fcr"):
                    with pytest.raises(ApiError) as refused:
                        await brokers.partitions(name)
                    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
                beat = HeartbeatRequest(group_id="\ud800", member_id="x", generation_id=1)
                for key in ("\ud800", "g"):
                    with pytest.raises(ApiError) as refused:
                        await brokers.ask_coordinator(CoordinatorKind.GROUP, key, beat)
                    assert refused.value.code == ErrorCode.INVALID_REQUEST
                assert (await brokers.ask(DescribeClusterRequest())).error_code == ErrorCode.NONE

        asyncio.run(run())

    def test_one_connection_is_opened_when_many_ask_at_once(self, broker: penstock.Broker) -> None:
        class CountingProxy(TcpProxy):
            count = 0

            async def carry(
                self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes = b""
            ) -> None:
                self.count += 1
                await super().carry(reader, writer, first)

        async def run() -> None:
            async with CountingProxy(broker.port) as proxy, Brokers([("127.0.0.1", proxy.port)]) as brokers:
                calls = (brokers.ask(DescribeClusterRequest()) for _ in range(10))
                assert {answer.error_code for answer in await asyncio.gather(*calls)} == {ErrorCode.NONE}
                assert proxy.count == 1

        asyncio.run(run())

    def test_caller_is_told_when_nobody_listens(self) -> None:
        async def run() -> None:
            async with Brokers([("127.0.0.1", 1), ("127.0.0.1", 2)]) as brokers:
                with pytest.raises(BrokersUnreachableError, match=r"127.0.0.1:1 .* 127.0.0.1:2 "):
                    await brokers.ask(DescribeClusterRequest(), timeout_s=0.1)

        asyncio.run(run())

    def test_callers_end_when_the_client_is_closed(self, broker: penstock.Broker) -> None:
        broker.create_topic("closed")

        async def run() -> None:
            brokers = brokers_of(broker.bootstrap_servers)
            dedicated = brokers.dedicated()
            waiting = asyncio.create_task(fetch(dedicated, "closed", 0, 0, wait_ms=60_000))
            await asyncio.sleep(0.1)
            await brokers.close()
            for call in (waiting, brokers.ask(DescribeClusterRequest()), dedicated.ask(DescribeClusterRequest())):
                with pytest.raises(ConnectionClosedError):
                    await call

        asyncio.run(run())

    def test_others_are_served_while_a_fetch_waits_apart(self, broker: penstock.Broker) -> None:
        broker.create_topic("waited-for")

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                waiting = asyncio.create_task(fetch(brokers.dedicated(), "waited-for", 0, 0, wait_ms=60_000))
                await asyncio.sleep(0)
                place = await BatchProducer(brokers).produce("waited-for", 0, [NewRecord(value=b"here")])
                assert place.base_offset == 0
                assert [record.value for record in (await waiting).records] == [b"here"]

        asyncio.run(run())

    def test_client_connects_again_when_its_connections_were_lost(self) -> None:
        async def run() -> None:
            async with proxied_broker() as (broker, proxy, brokers):
                await broker.create_topic("t")
                assert await brokers.partitions("t") == 1
                proxy.reset()
                assert (await brokers.ask(DescribeClusterRequest(), retry=True)).error_code == ErrorCode.NONE
                proxy.refuse()
                asking = asyncio.create_task(brokers.ask(DescribeClusterRequest(), retry=True))
                await asyncio.sleep(0.05)
                proxy.heal()
                assert (await asking).error_code == ErrorCode.NONE

        asyncio.run(run())

    def test_request_is_not_repeated_when_its_answer_was_lost_unless_the_caller_allows_it(self) -> None:
        async def run() -> None:
            async with proxied_broker() as (_, proxy, brokers):
                await brokers.metadata([])
                proxy.hold_answers()
                asking = asyncio.create_task(brokers.ask(DescribeClusterRequest()))
                again = asyncio.create_task(brokers.ask(DescribeClusterRequest(), retry=True))
                await asyncio.sleep(0.1)
                proxy.reset()
                proxy.heal()
                with pytest.raises(ConnectionClosedError):
                    await asking
                assert (await again).error_code == ErrorCode.NONE

        asyncio.run(run())

    def test_login_is_renewed_under_batches_and_refused_at_once_when_the_password_is_wrong(self) -> None:
        async def run() -> None:
            async with AsyncBroker(secure=True, config={"connections.max.reauth.ms": "1250"}) as broker:
                settings = {key: str(value) for key, value in broker.client_config.items()}
                servers = parse_servers(settings.pop("bootstrap.servers"))
                async with Brokers(servers, client_security(kafka_properties(settings))) as brokers:
                    assert (await brokers.ask(DescribeClusterRequest())).error_code == ErrorCode.NONE
                    await broker.create_topic("t")
                    await produce_past_a_login(brokers)
                wrong = client_security(kafka_properties({**settings, "sasl.password": "wrong"}))
                async with Brokers(servers, wrong) as brokers:
                    with pytest.raises(LoginRefusedError):
                        await brokers.partitions("t")

        asyncio.run(run())


class TestFetching:
    def test_records_of_every_codec_come_back_when_another_client_wrote_them(self, broker: penstock.Broker) -> None:
        broker.create_topic("codecs", config={"message.timestamp.type": "CreateTime"})
        expected = []
        for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 50}
            )
            for each in range(50):
                value = b"%d" % each * 100
                producer.produce(
                    "codecs", value, b"k%d" % each, headers=[("h", b"%d" % number), ("n", None)], timestamp=1_000 + each
                )
                expected.append((1_000 + each, b"k%d" % each, value, (("h", b"%d" % number), ("n", None))))
            producer.flush()

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                found, offset = [], 0
                while offset < 250:
                    fetched = await fetch(brokers, "codecs", 0, offset, max_bytes=2_000)
                    found += fetched.records
                    assert fetched.next_offset > offset
                    offset = fetched.next_offset
                assert [record.offset for record in found] == list(range(250))
                assert [tuple(record)[1:] for record in found] == expected
                middle = await fetch(brokers, "codecs", 0, 120)
                assert middle.records[0].offset == 120
                assert middle.high_watermark == middle.last_stable_offset == 250
                assert await offset_of(brokers, "codecs", 0, EARLIEST) == 0
                assert await offset_of(brokers, "codecs", 0, LATEST) == 250
                assert await offset_of(brokers, "codecs", 0, 1_010) == 10
                assert await offset_of(brokers, "codecs", 0, 10_000) == -1
                with pytest.raises(ApiError) as refused:
                    await fetch(brokers, "codecs", 0, 251)
                assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

        asyncio.run(run())

    def test_aborted_and_open_transactions_are_left_out_when_only_committed_records_are_wanted(
        self, broker: penstock.Broker
    ) -> None:
        broker.create_topic("transactions")
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "other"}
        )
        producer.init_transactions()
        for end, value in ((producer.commit_transaction, b"1"), (producer.abort_transaction, b"2"), (None, b"3")):
            producer.begin_transaction()
            producer.produce("transactions", value)
            producer.flush()
            if end is not None:
                end()

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                committed = await fetch(brokers, "transactions", 0, 0, wait_ms=0)
                assert [record.value for record in committed.records] == [b"1"]
                assert committed.next_offset == committed.last_stable_offset == 4
                everything = await fetch(brokers, "transactions", 0, 0, committed=False)
                assert [record.value for record in everything.records] == [b"1", b"2", b"3"]
                assert await offset_of(brokers, "transactions", 0, LATEST, committed=True) == 4

        asyncio.run(run())
        producer.abort_transaction()


class TestTransactionalWriter:
    def test_another_client_reads_what_was_committed_and_nothing_of_what_was_refused(
        self, broker: penstock.Broker
    ) -> None:
        broker.create_topic("written", config={"max.message.bytes": "1000"})

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                writer = TransactionalWriter(brokers, "writer", "written", 0)
                await writer.begin()
                assert await writer.write([NewRecord(b"k", b"a"), NewRecord(b"k", b"b")]) == 3
                with pytest.raises(ApiError) as refused:
                    await writer.write([NewRecord(b"k", bytes(2_000))])
                assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
                assert writer.has_begun
                position = await writer.write([NewRecord(b"k", b"c")])
                fetched = await fetch(brokers, "written", 0, 0)
                assert [record.value for record in fetched.records] == [b"a", b"b", b"c"]
                assert fetched.next_offset == position

        asyncio.run(run())
        assert read_values(broker.bootstrap_servers, "written", 3) == [b"a", b"b", b"c"]

    def test_earlier_writer_is_fenced_when_another_one_has_begun(self, broker: penstock.Broker) -> None:
        broker.create_topic("fenced")

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                first, second = (TransactionalWriter(brokers, "one", "fenced", 0) for _ in range(2))
                await first.begin()
                await first.write([NewRecord(value=b"first")])
                await second.begin()
                with pytest.raises(FencedError):
                    await first.write([NewRecord(value=b"too late")])
                assert not first.has_begun
                position = await second.write([NewRecord(value=b"second")])
                fetched = await fetch(brokers, "fenced", 0, 0)
                assert [record.value for record in fetched.records] == [b"first", b"second"]
                assert fetched.next_offset == position

        asyncio.run(run())

    def test_writes_are_there_once_when_connections_are_lost_again_and_again(self) -> None:
        async def run() -> None:
            async with proxied_broker() as (broker, proxy, brokers):
                await broker.create_topic("t")
                writer = TransactionalWriter(brokers, "w", "t", 0)
                await writer.begin()
                breaking = asyncio.create_task(break_often(proxy.reset))
                for number in range(20):
                    await writer.write([NewRecord(value=b"%d" % number)])
                breaking.cancel()
                fetched = await fetch(brokers, "t", 0, 0)
                assert [record.value for record in fetched.records] == [b"%d" % number for number in range(20)]

        asyncio.run(run())


async def produce_past_a_login(brokers: Brokers) -> None:
    """A broker ends a connection whose login has ended."""
    producer, count, loop = BatchProducer(brokers), 0, asyncio.get_running_loop()
    until = loop.time() + 1.3
    while loop.time() < until:
        places = await asyncio.gather(*(producer.produce("t", 0, [NewRecord(value=b"v")]) for _ in range(5)))
        assert [place.base_offset for place in places] == list(range(count, count + 5))
        count += 5
        await asyncio.sleep(0.02)


async def break_often(reset: object) -> None:
    assert callable(reset)
    while True:
        await asyncio.sleep(0.03)
        reset()


class TestProducing:
    def test_calls_are_written_in_their_order_and_each_refusal_is_its_own(self, broker: penstock.Broker) -> None:
        broker.create_topic("ordered", config={"max.message.bytes": "1000"})

        async def run() -> list[Appended | BaseException]:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                producer = BatchProducer(brokers)
                calls = (
                    producer.produce(
                        "ordered", 0, [NewRecord(value=bytes(2_000) if number % 7 == 3 else b"%d" % number)]
                    )
                    for number in range(60)
                )
                return await asyncio.gather(*calls, return_exceptions=True)

        outcomes = asyncio.run(run())
        refused = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, ApiError)]
        assert refused == list(range(3, 60, 7))
        offsets = [outcome.base_offset for outcome in outcomes if isinstance(outcome, Appended)]
        assert offsets == list(range(len(offsets)))
        values = [b"%d" % number for number in range(60) if number not in refused]
        assert read_values(broker.bootstrap_servers, "ordered", len(values)) == values

    def test_batches_are_there_once_and_in_order_when_connections_are_lost_again_and_again(self) -> None:
        async def run() -> None:
            async with proxied_broker() as (broker, proxy, brokers):
                await broker.create_topic("t")
                producer = BatchProducer(brokers)
                breaking = asyncio.create_task(break_often(proxy.reset))
                for start in range(0, 100, 20):
                    calls = (
                        producer.produce("t", 0, [NewRecord(value=b"%d" % each)]) for each in range(start, start + 20)
                    )
                    places = await asyncio.gather(*calls)
                    assert [place.base_offset for place in places] == list(range(start, start + 20))
                    await asyncio.sleep(0.01)
                breaking.cancel()
                await producer.close()
                fetched = await fetch(brokers, "t", 0, 0)
                assert [record.value for record in fetched.records] == [b"%d" % each for each in range(100)]

        asyncio.run(run())

    def test_records_are_written_as_they_were_given_whatever_the_codec_and_the_acks(
        self, broker: penstock.Broker
    ) -> None:
        broker.create_topic("given")
        record = NewRecord(b"k", b"v" * 200, (("h", b"1"), ("n", None)), 77)

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                producer = BatchProducer(brokers)
                for codec in Codec:
                    await producer.produce("given", 0, [record] * 3, compression=codec)
                assert (await producer.produce("given", 0, [record] * 2_500, compression=Codec.GZIP)).base_offset == 15
                assert (await producer.produce("given", 0, [record], acks=1)).base_offset == 2_515
                assert (await producer.produce("given", 0, [record], acks=0)).base_offset == -1
                with pytest.raises(ApiError) as refused:
                    await producer.produce("unknown", 0, [record])
                assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                with pytest.raises(ApiError) as refused:
                    await producer.produce("given", 7, [record], acks=1)
                assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        asyncio.run(run())
        assert read_values(broker.bootstrap_servers, "given", 2_517) == [record.value] * 2_517

    def test_callers_wait_for_room_when_the_buffer_is_full(self, broker: penstock.Broker) -> None:
        broker.create_topic("full")

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                producer = BatchProducer(brokers, buffer_bytes=3_000)
                calls = [
                    asyncio.create_task(producer.produce("full", 0, [NewRecord(value=bytes(1_000))])) for _ in range(20)
                ]
                await asyncio.sleep(0)
                calls[5].cancel()
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                assert sum(isinstance(outcome, Appended) for outcome in outcomes) == 19
                with pytest.raises(ApiError) as refused:
                    await producer.produce("full", 0, [NewRecord(value=bytes(4_000))])
                assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
                await producer.close()
                with pytest.raises(ConnectionClosedError):
                    await producer.produce("full", 0, [NewRecord()])

        asyncio.run(run())

    def test_keys_go_where_other_clients_put_them(self) -> None:
        for size in range(40):
            key = bytes((size * 31 + each * 7) % 256 for each in range(size))
            theirs = kafka.partitioner.default.murmur2(key) & 0x7FFFFFFF
            assert partition_for(key, 1_000) == theirs % 1_000
