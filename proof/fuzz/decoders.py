"""Every decoder that reads what others wrote, with samples to mutate and the exceptions it may answer with."""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.broker.apis import APIS
from penstock.cluster.deltas.delta import DeletedTopic, Delta, TopicChange
from penstock.cluster.deltas.encoding import decode_delta, encode_delta
from penstock.cluster.image import BrokerRegistration, PartitionState, TopicImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError
from penstock.core.listeners import Endpoint
from penstock.core.types import TopicPartition
from penstock.groups.records import consumer_groups as consumer_records
from penstock.groups.records.consumer_offsets import (
    CommittedOffset,
    RecordedGroup,
    RecordedMember,
    encode_group,
    encode_offset,
)
from penstock.groups.requests import Protocol
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.groups.topics import TopicIdPartition
from penstock.log.formats.checkpoints import decode_offsets, encode_offsets
from penstock.log.formats.metadata_files import (
    DirectoryIdentity,
    decode_meta_properties,
    decode_partition_metadata,
    encode_meta_properties,
    encode_partition_metadata,
)
from penstock.log.state.leader_epochs import EpochEntry, LeaderEpochs
from penstock.log.state.producer_snapshot import decode_snapshot, encode_snapshot
from penstock.log.state.producer_state import BatchMetadata, ProducerStateEntry
from penstock.log.state.transaction_index import AbortedTransaction, TransactionIndex
from penstock.log.storage.indexes import OffsetIndex, TimeIndex
from penstock.protocol.batch import iterate_batches
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ApiError
from penstock.protocol.records import iterate_outlines, iterate_records
from penstock.transactions.records import encode_transaction
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import Transaction, TransactionState
from proof.fuzz.mutations import Fuzzer
from proof.surprise import Surprise

# Replayed records pile up in a shard; a fresh one after this many keeps memory and time the same for all.
_RECORDS_PER_SHARD = 500
_LOG_SIZE = 100_000
_DECOMPRESSION_LIMIT = 1 << 20


class Decoder(NamedTuple):
    name: str
    samples: Sequence[bytes]
    decode: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]  # how it may say no


class FailedDecode(NamedTuple):
    decoder: str
    data: bytes
    error: Exception

    def __str__(self) -> str:
        return f"{self.decoder}: {type(self.error).__name__}: {self.error} for {self.data.hex()}"


class FuzzedDecoders:
    """Seeded like the frames; `step` tries one mutated sample on the next decoder."""

    def __init__(self, seed: int) -> None:
        self._fuzzer = Fuzzer(seed, [], ["topic", "group", "member"])
        self._dice = random.Random(seed)
        self._replayed = _Replay()
        self._decoders = [
            *_file_decoders(),
            *self._record_decoders(),
            *_store_decoders(),
            *self._response_decoders(),
        ]
        self._next = 0

    def step(self) -> FailedDecode | None:
        decoder = self._decoders[self._next % len(self._decoders)]
        self._next += 1
        data = self._fuzzer.mutate(self._dice.choice(decoder.samples))
        with Surprise() as surprise, contextlib.suppress(*decoder.refusals):
            decoder.decode(data)
        return None if surprise.error is None else FailedDecode(decoder.name, data, surprise.error)

    def _response_decoders(self) -> list[Decoder]:
        """Decoders of answers, as clients use them; see `client.connection.core` for what it takes as a refusal."""
        decoders = []
        for api in APIS.values():
            for version in range(api.min_version, api.max_version + 1):
                response = api.request.RESPONSE
                samples = [encode(self._fuzzer.message(response, version), version) for _ in range(3)]
                decoders.append(
                    Decoder(
                        f"{response.__name__} v{version}",
                        samples,
                        lambda data, response=response, version=version: decode(response, data, version),  # type: ignore[misc]
                        (ApiError, ValueError, IndexError),
                    )
                )
        return decoders

    def _record_decoders(self) -> list[Decoder]:
        batches = [self._fuzzer.batch() for _ in range(60)]
        keyed = [_join(key, value) for key, value in _group_records()]
        transactions = [_join(key, value) for key, value in _transaction_records()]
        return [
            Decoder("batches", batches, lambda data: list(iterate_batches(data)), (ApiError,)),
            Decoder("records", batches, lambda data: list(iterate_records(data, _DECOMPRESSION_LIMIT)), (ApiError,)),
            Decoder("outlines", batches, lambda data: list(iterate_outlines(data, _DECOMPRESSION_LIMIT)), (ApiError,)),
            Decoder("group replay", keyed, self._replayed.group, (ApiError,)),
            Decoder("transaction replay", transactions, self._replayed.transaction, (ApiError,)),
        ] * 8  # as many tries as the responses get


def _join(key: bytes, value: bytes | None) -> bytes:
    return bytes([len(key)]) + key + (value or b"")


class _Replay:
    """Coordinators fed with records that almost make sense: state must stay such that the next record is taken."""

    def __init__(self) -> None:
        self._count = 0
        self._renew()

    def _renew(self) -> None:
        self._groups = GroupShard(0, GroupSettings())
        self._transactions = TransactionShard(0, 0, TransactionSettings(), lambda: 1)

    def _split(self, data: bytes) -> tuple[bytes, bytes | None]:
        self._count += 1
        if self._count % _RECORDS_PER_SHARD == 0:
            self._renew()
        end = 1 + data[0]
        return data[1:end], data[end:] or None

    def group(self, data: bytes) -> None:
        key, value = self._split(data)
        self._groups.replay(key, value, self._count)

    def transaction(self, data: bytes) -> None:
        self._transactions.replay(*self._split(data))


def _group_records() -> Sequence[tuple[bytes, bytes | None]]:
    member = RecordedMember("member", "instance", "client", "/127.0.0.1", 1_000, 1_000, b"\0\1", b"\0\1")
    subscription = consumer_records.RecordedSubscription(
        "instance", "rack", "client", "host", frozenset({"topic"}), "t.*", 1_000, "uniform",
        consumer_records.ClassicMembership(1_000, (Protocol("range", b"\0\1"),)),
    )  # fmt: skip
    topic_partition = TopicIdPartition(b"\1" * 16, 0)
    assignment = consumer_records.RecordedAssignment(
        2, 1, consumer_records.MemberState(0), {topic_partition: 1}, {topic_partition: 2}
    )
    return [
        encode_offset("group", "topic", 0, CommittedOffset(5, 1, "metadata", 1, topic_id=b"\2" * 16)),
        encode_offset("group", "topic", 1, CommittedOffset(5, expire_timestamp_ms=9)),
        encode_offset("group", "topic", 0, None),
        encode_group("classic", RecordedGroup("consumer", 1, "range", "member", 1, (member,))),
        encode_group("classic", None),
        consumer_records.encode_consumer_group("consumers", 3, 7),
        consumer_records.encode_consumer_group("consumers", None),
        consumer_records.encode_partition_metadata_tombstone("consumers"),
        consumer_records.encode_subscription("consumers", "member", subscription),
        consumer_records.encode_subscription("consumers", "member", None),
        consumer_records.encode_target_epoch("consumers", 3, 1),
        consumer_records.encode_target("consumers", "member", [topic_partition]),
        consumer_records.encode_target("consumers", "member", None),
        consumer_records.encode_assignment("consumers", "member", assignment),
        consumer_records.encode_assignment("consumers", "member", None),
        consumer_records.encode_expression(
            "consumers", "t.*", consumer_records.ResolvedExpression(frozenset({"topic"}), 1, 1)
        ),
        consumer_records.encode_expression("consumers", "t.*", None),
    ]


def _transaction_records() -> Sequence[tuple[bytes, bytes | None]]:
    partitions = frozenset({TopicPartition("topic", 0), TopicPartition("topic", 1), TopicPartition("other", 0)})
    return [
        encode_transaction("id", Transaction(1, 0, 1_000, state, partitions, 1, 1), version)
        for state in TransactionState
        for version in (0, 1)
    ] + [encode_transaction("id", None, 1)]


def _file_decoders() -> list[Decoder]:
    offsets = OffsetIndex(100)
    times = TimeIndex(100)
    aborted = TransactionIndex(100)
    for number in range(1, 6):
        offsets.append(100 + number * 10, number * 100)
        times.append(1_000 + number, 100 + number * 10)
        aborted.append(AbortedTransaction(number, 100 + number, 105 + number * 10, 101))
    entry = ProducerStateEntry(1, 0, 0, 1, -1, [BatchMetadata(5, 10, 5, 1)])
    epochs = LeaderEpochs([EpochEntry(0, 0), EpochEntry(3, 10)])
    identity = DirectoryIdentity(1, "cluster", b"\1" * 16)
    table: list[tuple[str, bytes, Callable[[bytes], object]]] = [
        ("offset index", offsets.encode(), lambda data: OffsetIndex.decode(100, data, _LOG_SIZE).lookup(130)),
        ("time index", times.encode(), lambda data: TimeIndex.decode(100, data).lookup(1_003)),
        ("transaction index", aborted.encode(), lambda data: TransactionIndex.decode(100, data).collect(0, 500, [])),
        ("producer snapshot", encode_snapshot([entry, entry]), decode_snapshot),
        ("leader epochs", epochs.encode(), LeaderEpochs.decode),
        ("offset checkpoint", encode_offsets({TopicPartition("topic", 0): 5}), decode_offsets),
        ("partition metadata", encode_partition_metadata(b"\1" * 16), decode_partition_metadata),
        ("meta.properties", encode_meta_properties(identity), decode_meta_properties),
    ]
    return [Decoder(name, [sample], read, (ValueError,)) for name, sample, read in table] * 8


def _store_decoders() -> list[Decoder]:
    topic = b'{"version":3,"topic_id":"AQEBAQEBAQEBAQEBAQEBAQ","partitions":{"0":[1]}}'
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    settings = b'{"version":1,"config":{"retention.ms":"1000"}}'
    assignment = znodes.TopicAssignment(b"\1" * 16, {0: (1,)}, {}, {})
    broker = BrokerRegistration(1, (Endpoint("PLAINTEXT", "host", 9092, "PLAINTEXT"),), "rack", 3)
    created = TopicImage("topic", b"\1" * 16, (PartitionState(0, (1,), (1,), 1),))
    change = TopicChange("topic", b"\1" * 16, 1, created.partitions, configs={"retention.ms": "1"})
    delta = Delta(1, "id", 1, 1, {1: broker}, (DeletedTopic("topic", b"\1" * 16, 1),), (created,), (change,))
    table: list[tuple[str, bytes, Callable[[bytes], object]]] = [
        ("topic node", topic, lambda data: znodes.decode_topic("topic", data)),
        ("partition node", state, lambda data: znodes.decode_partition_state("topic", 0, assignment, data, 0)),
        ("settings node", settings, lambda data: znodes.decode_settings("/config", data)),
        ("cluster node", b'{"version":"1","id":"cluster"}', znodes.decode_cluster_id),
        ("controller node", b'{"version":1,"brokerid":1,"timestamp":"1"}', znodes.decode_controller),
        ("epoch node", b"1", znodes.decode_controller_epoch),
        (
            "brokers node",
            znodes.encode_brokers({1: broker}, {1: ("disk",)}, {2: broker._replace(node_id=2)}),
            znodes.decode_brokers,
        ),
        ("delta", zlib.decompress(encode_delta(delta)), lambda data: decode_delta("/log", zlib.compress(data))),
    ]
    return [Decoder(name, [sample], read, (StoreError,)) for name, sample, read in table] * 4
