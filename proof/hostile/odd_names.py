"""The habit "odd names and large members, then silence": what a client leaves behind in a broker's memory.

Clients that nobody knows name things that do not exist, in names as long as the protocol allows and never the same
twice; members of groups bring megabytes of metadata and leave. Then all of them are gone. Whatever the broker still
holds is keyed or sized by what strangers sent. It may be bounded in bytes, but not in number alone: a cache of a
thousand names is small until each name has 32 KB.

How memory is judged: `resident size` of the broker's process, which is started with `RETURNING_ALLOCATOR`. Its C
allocator then maps every piece above 8 KB by itself and gives it back when it is freed, so that what is resident after
the silence is what is held, and not what an allocator keeps for later. A first turn of every habit comes before the
baseline: it loads codecs and handlers, and makes the coordinators' topics.
"""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock.broker.apis import APIS
from penstock.client.connection import BlockingConnection
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.records import Record, build_batch
from penstock.testing.processes import BrokerProcess
from proof.memory import resident_size

RETURNING_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "8192", "MALLOC_MMAP_MAX_": "1000000", "MALLOC_ARENA_MAX": "1"}
# State that a broker forgets by time is forgotten soon: groups without offsets, transactional ids.
SHORT_MEMORY = {
    "offsets.retention.check.interval.ms": "250",
    "offsets.retention.minutes": "1",
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "250",
}
MAX_HELD = 20 * 1024 * 1024
# The longest string that versions before KIP-482 can say.
_LONGEST = 32_767
_MEMBER_SIZE, _SMALL_MEMBER_SIZE = 10 * 1024 * 1024, 10 * 1024
_LONGEST_SESSION_MS = 1_800_000  # the most that a broker allows: what waits for its end waits half an hour
_SILENCE_S = 10.0
_WARM_UP_SHARE = 0.04
_BATCH = build_batch([Record(b"k", b"v", (), 1_700_000_000_000)])


class OddClient:
    """One stranger after the other; each name is a new one."""

    def __init__(self, host: str, port: int, topic: str) -> None:
        self._address = host, port
        self._topic = topic
        self._numbers = itertools.count()
        self._member_size = _MEMBER_SIZE

    def warm_up(self) -> None:
        """Everything once, and nothing large: what a broker keeps of this is not to hide in the baseline."""
        self._member_size = _SMALL_MEMBER_SIZE
        self.run(_WARM_UP_SHARE)
        self._member_size = _MEMBER_SIZE

    def run(self, share: float = 1.0) -> None:
        """The counts are such that a broker which keeps all that one habit says holds more than MAX_HELD by that alone.
        The three that name coordinators' keys come up to it together.
        """
        for habit, count in (
            (self._produce, 350),
            (self._fetch, 700),
            (self._ask_for_metadata, 700),
            (self._look_for_coordinators, 120),
            (self._begin_transactions, 40),
            (self._commit, 40),
            (self._introduce_themselves, 350),
            (self._join_and_leave, 4),
        ):
            with self._connect() as connection:
                for number in range(max(1, int(count * share))):
                    habit(connection, number)

    def _connect(self, client_id: str = "odd") -> BlockingConnection:
        return BlockingConnection(*self._address, client_id=client_id)

    def _name(self) -> str:
        return f"odd-{next(self._numbers)}-".ljust(_LONGEST, "n")

    def _wide_name(self) -> str:
        """As long on the wire, and four times as large in Python's memory: it has a character that needs four bytes."""
        return self._name()[: _LONGEST - 4] + "\N{BEAR FACE}"

    # ---- names of topics

    def _produce(self, connection: BlockingConnection, number: int) -> None:
        data = TopicProduceData(name=self._name(), partition_data=[PartitionProduceData(index=0, records=_BATCH)])
        request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data])
        connection.request(request, _version(request, number, most=12))  # later ones send ids

    def _fetch(self, connection: BlockingConnection, number: int) -> None:
        """Fetches in a new session each time; a session outlives its connection."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
        topic = FetchTopic(topic=self._name(), partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000, session_epoch=0, topics=[topic])
        connection.request(request, _version(request, number, least=7, most=12))

    def _ask_for_metadata(self, connection: BlockingConnection, number: int) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._name())], allow_auto_topic_creation=False)
        connection.request(request, _version(request, number, least=4))

    # ---- names of groups, transactions and clients

    def _look_for_coordinators(self, connection: BlockingConnection, number: int) -> None:
        request = FindCoordinatorRequest(key=self._wide_name(), key_type=number % 2)
        connection.request(request, _version(request, number, least=1, most=3))

    def _begin_transactions(self, connection: BlockingConnection, number: int) -> None:
        request = InitProducerIdRequest(transactional_id=self._wide_name(), transaction_timeout_ms=1_000)
        connection.request(request, _version(request, number, most=4))

    def _introduce_themselves(self, _: BlockingConnection, number: int) -> None:
        with self._connect(client_id=self._name()) as connection:
            name = self._name()
            request = ApiVersionsRequest(client_software_name=name, client_software_version=name)
            connection.request(request, 3)

    def _commit(self, connection: BlockingConnection, number: int) -> None:
        """Half of them to a topic that is there, with metadata that is too large; half to one that is not."""
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=number, committed_metadata=self._name()
        )
        name = self._topic if number % 2 else self._name()
        topic = OffsetCommitRequestTopic(name=name, partitions=[partition])
        request = OffsetCommitRequest(group_id=self._wide_name(), topics=[topic])
        connection.request(request, _version(request, number, most=9))

    # ---- members

    def _join_and_leave(self, connection: BlockingConnection, number: int) -> None:
        group = f"odd-group-{next(self._numbers)}"
        metadata = _subscription(self._topic, number, self._member_size)
        joined = self._join(connection, group, metadata)
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=metadata)
        connection.request(
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[assignment],
            ),
            3,
        )
        connection.request(LeaveGroupRequest(group_id=group, member_id=joined.member_id), 2)

    @staticmethod
    def _join(connection: BlockingConnection, group: str, metadata: bytes) -> Any:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=_LONGEST_SESSION_MS,
            rebalance_timeout_ms=_LONGEST_SESSION_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        return connection.request(request, 3)


def _version(request: Message, number: int, *, least: int = 0, most: int = 1_000) -> int:
    """Every served version in turn, within those that the habit makes sense in."""
    api = APIS[request.API_KEY]
    low = max(api.min_version, request.MIN_VERSION, least)
    return low + number % (min(api.max_version, most) - low + 1)


def _subscription(topic: str, number: int, size: int) -> bytes:
    """A consumer's, in version 0, with user data that fills the member up."""
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, size)
    return head + struct.pack(">i", number).ljust(size, b"m")


def measure_held(process: BrokerProcess, topic: str, say: Callable[[str], None]) -> int:
    """Bytes that the broker holds above the baseline when everybody is gone. `process` has RETURNING_ALLOCATOR."""
    client = OddClient(process.host, process.port, topic)
    client.warm_up()
    _wait_for_silence(process.pid, None)
    before = resident_size(process.pid)
    client.run()
    most = resident_size(process.pid)
    held = _wait_for_silence(process.pid, before + MAX_HELD) - before
    say(f"odd names: +{(most - before) >> 20} MB right after, +{held >> 20} MB after the silence")
    return held


def _wait_for_silence(pid: int, enough: int | None) -> int:
    """The resident size once it is below `enough`, or falls no more."""
    sizes = [resident_size(pid)]
    for _ in _ticks(_SILENCE_S):
        sizes.append(resident_size(pid))
        is_settled = len(sizes) > 10 and min(sizes[-10:]) == max(sizes[-10:])
        if (enough is not None and sizes[-1] < enough) or (enough is None and is_settled):
            break
    return sizes[-1]


def _ticks(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.1)
        yield
