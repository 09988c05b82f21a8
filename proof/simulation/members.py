"""Clients in groups: those that only commit, one that asks for what it has committed, classic members, and members by
KIP-848.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from penstock.testing.history import Commit, Outcome
from proof.simulation.client import FOR_GROUP, TRANSIENT, UNCERTAIN, Answer, Call, Client, Script, Setting, ask
from proof.simulation.notebook import Partition
from proof.simulation.topics import RECORDS, RECORDS_PARTITIONS

SESSION_TIMEOUT_MS = 6_000
_HEARTBEAT_MS = 700.0
_RETRY_MS = 50.0
_JOIN_TIMEOUT_MS = 9_000.0
_NO_MARKER = -1
# The longest is longer than a lease lasts: a coordinator that is cut off then has nothing that waits for its followers.
_BETWEEN_BATCHES_MS = (10.0, 300.0, 3_000.0)


Steps = Generator[Call | float, Any, Any]


class GroupClient(Client):
    group = ""
    member_id = ""
    generation = -1
    commit_version = 8

    def __init__(self, number: int, kind: str, setting: Setting, seed: int) -> None:
        super().__init__(number, kind, setting, seed)
        self._next_offset = number * 1_000_000

    def ask_coordinator(self, call: Call, expected: type[Answer]) -> Generator[Call | float, Any, Answer | None]:
        node = yield from self.coordinator(self.group, FOR_GROUP)
        return (yield from ask(call._replace(node=node), expected))

    def commit(self, topic_partition: Partition) -> Generator[Call | float, Any, Outcome]:
        """A new offset each time, so that it is known which commit is found again."""
        self._next_offset += 1
        offset = self._next_offset
        attempt = self.notebook.begin(self.number, Commit(self.group, *topic_partition, offset))
        partition = OffsetCommitRequestPartition(partition_index=topic_partition[1], committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=topic_partition[0], partitions=[partition])],
        )
        response = yield from self.ask_coordinator(Call(request, self.commit_version), OffsetCommitResponse)
        code = None if response is None else response.topics[0].partitions[0].error_code
        self.note(f"commits {offset} of {topic_partition[1]}: {None if code is None else ErrorCode(code).name}")
        outcome = Outcome.UNKNOWN if code is None or code in UNCERTAIN else Outcome.FAILED
        outcome = Outcome.OK if code == 0 else outcome
        self.notebook.end(attempt, outcome)
        return outcome


class Committer(GroupClient):
    """Uses a group for its offsets alone."""

    def run(self) -> Script:
        self.group = f"offsets-of-{self.name}"
        yield from self.find_coordinator(self.group, FOR_GROUP)
        while self.goes_on:
            yield from self.commit((RECORDS, self.chance.randrange(RECORDS_PARTITIONS)))
            yield self.pause()


class Repeater(GroupClient):
    """Repeats its batches, as Spark does after a failure. A marker is committed with each batch, and whoever repeats
    the batch asks for the marker first, perhaps at another broker than the one that took it: so every broker is asked.
    An answer with a marker that was replaced before the question would make the batch be written twice. (A commit of
    unknown outcome may have come late: its marker may be found all the same.)
    """

    def run(self) -> Script:
        self.group = f"markers-of-{self.name}"
        marker = (RECORDS, 0)
        yield from self.find_coordinator(self.group, FOR_GROUP)
        replaced: set[int] = set()
        newest = _NO_MARKER
        while self.goes_on:
            if (yield from self.commit(marker)) is Outcome.OK:
                replaced.add(newest)
                newest = self._next_offset
            for node in range(len(self.setting.machines)):
                if (yield from self._find_marker(node, marker)) in replaced:
                    self.notebook.fail(f"{self.name} is told an old marker by {node}, and would write a batch twice")
                yield self.pause()
            yield self.chance.choice(_BETWEEN_BATCHES_MS)

    def _find_marker(self, node: int, marker: Partition) -> Generator[Call | float, Any, int | None]:
        topic = OffsetFetchRequestTopics(name=marker[0], partition_indexes=[marker[1]])
        group = OffsetFetchRequestGroup(group_id=self.group, topics=[topic])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        response = yield from ask(Call(request, 8, node=node), OffsetFetchResponse)
        if response is None or response.groups[0].error_code:
            return None
        (row,) = response.groups[0].topics[0].partitions
        self.note(f"finds {row.committed_offset} at {node}: {ErrorCode(row.error_code).name}")
        return None if row.error_code else row.committed_offset


class ClassicMember(GroupClient):
    group = "classic-group"

    def run(self) -> Script:
        yield from self.find_coordinator(self.group, FOR_GROUP)
        while self.goes_on:
            yield from self.take_part()
        yield from self.leave()

    def take_part(self) -> Steps:
        """One generation: join, sync, then heartbeats until something else is to be done."""
        joined = yield from self._join()
        if joined is None:
            yield _RETRY_MS
            return
        synced = yield from self._sync(joined)
        if synced is None:
            yield _RETRY_MS
            return
        owned: list[Partition] = [(RECORDS, index) for index in json.loads(synced or b"[]")]
        self.note(f"owns {[index for _, index in owned]} in generation {self.generation}")
        self.notebook.assigned(self.group, self.generation, self.member_id, owned)
        while self.goes_on:
            yield self.chance.choice((_HEARTBEAT_MS / 4, _HEARTBEAT_MS))
            if self.chance.random() < 0.03:
                yield 1.5 * SESSION_TIMEOUT_MS  # a long pause: the broker takes it for dead
            if self.chance.random() < 0.05:
                return  # joins again without need
            if self.chance.random() < 0.03:
                yield from self.leave()
                return
            if owned and self.chance.random() < 0.5:
                yield from self.commit(self.chance.choice(owned))
            if not (yield from self._is_alive()):
                return

    def _join(self) -> Generator[Call | float, Any, JoinGroupResponse | None]:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=_subscription())],
        )
        response = yield from self.ask_coordinator(Call(request, 7, _JOIN_TIMEOUT_MS), JoinGroupResponse)
        if response is None:
            return None
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return (yield from self._join())
        self.note(f"joins as {self.member_id[-4:]}: {ErrorCode(response.error_code).name} {response.generation_id}")
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        if response.error_code:
            return None
        self.member_id, self.generation = response.member_id, response.generation_id
        return response

    def _sync(self, joined: JoinGroupResponse) -> Generator[Call | float, Any, bytes | None]:
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == self.member_id:
            members = sorted(member.member_id for member in joined.members)
            for place, member_id in enumerate(members):
                owned = list(range(place, RECORDS_PARTITIONS, len(members)))
                assignments.append(
                    SyncGroupRequestAssignment(member_id=member_id, assignment=json.dumps(owned).encode())
                )
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        response = yield from self.ask_coordinator(Call(request, 5, _JOIN_TIMEOUT_MS), SyncGroupResponse)
        if response is None:
            return None
        if response.error_code:
            self.note(f"syncs: {ErrorCode(response.error_code).name}")
            if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            return None
        return response.assignment

    def _is_alive(self) -> Steps:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        response = yield from self.ask_coordinator(Call(request, 4), HeartbeatResponse)
        if response is None or response.error_code == 0 or response.error_code in TRANSIENT:
            return True
        self.note(f"heartbeat: {ErrorCode(response.error_code).name}")
        if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        return False

    def leave(self) -> Steps:
        if self.member_id:
            request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)])
            yield from self.ask_coordinator(Call(request, 5), LeaveGroupResponse)
            self.note("leaves")
            self.member_id = ""


class ConsumerMember(GroupClient):
    """A member by KIP-848: the broker assigns, and the member gives up partitions before it takes others."""

    group = "consumer-group"
    commit_version = 9
    topic_id = b""

    def run(self) -> Script:
        yield from self.find_coordinator(self.group, FOR_GROUP)
        while self.goes_on and not self.topic_id:
            yield from self._find_topic()
        self.member_id = f"member-{self.number}-{self.chance.getrandbits(32):08x}"
        self.generation = 0
        self.owned: set[int] = set()
        self.must_tell_all = True
        while self.goes_on:
            yield from self._heartbeat()
            if self.owned and self.chance.random() < 0.4:
                yield from self.commit((RECORDS, self.chance.choice(sorted(self.owned))))
            if self.chance.random() < 0.03:
                yield 1.5 * SESSION_TIMEOUT_MS
            elif self.chance.random() < 0.03:
                yield from self._leave()
            yield self.chance.choice((_HEARTBEAT_MS / 4, _HEARTBEAT_MS))
        yield from self._leave()

    def _find_topic(self) -> Steps:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=RECORDS)])
        response = yield from ask(Call(request, 12), MetadataResponse)
        if response is not None and response.topics and not response.topics[0].error_code:
            self.topic_id = response.topics[0].topic_id
        else:
            yield _RETRY_MS

    def _heartbeat(self) -> Steps:
        tells_all = self.must_tell_all or self.generation == 0
        owned = ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=self.topic_id, partitions=sorted(self.owned))
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS if tells_all else -1,
            subscribed_topic_names=[RECORDS] if tells_all else None,
            topic_partitions=([owned] if self.owned else []) if tells_all else None,
        )
        sent_ms = self.setting.world.time_ms
        response = yield from self.ask_coordinator(Call(request, 1), ConsumerGroupHeartbeatResponse)
        if response is None:
            self.must_tell_all = True
            return
        if response.error_code:
            self.note(f"heartbeat in epoch {self.generation}: {ErrorCode(response.error_code).name}")
            self.must_tell_all = True
            if response.error_code not in TRANSIENT:
                self._give_up_all()
                self.generation = 0
            return
        self.must_tell_all = False
        self.generation = response.member_epoch
        self._take_over(response, sent_ms + SESSION_TIMEOUT_MS)

    def _take_over(self, response: ConsumerGroupHeartbeatResponse, lease_ends_ms: float) -> None:
        if response.assignment is not None:
            target = {index for topic in response.assignment.topic_partitions for index in topic.partitions}
            if target != self.owned:
                self.note(f"owns {sorted(target)} in epoch {self.generation}")
                self.must_tell_all = True
            for index in sorted(self.owned - target):
                self.notebook.release(self.group, (RECORDS, index), self.member_id)
            self.owned = target
        for index in sorted(self.owned):
            self.notebook.take(self.group, (RECORDS, index), self.member_id, lease_ends_ms)

    def _give_up_all(self) -> None:
        for index in sorted(self.owned):
            self.notebook.release(self.group, (RECORDS, index), self.member_id)
        self.owned = set()

    def _leave(self) -> Steps:
        self._give_up_all()
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=-1)
        yield from self.ask_coordinator(Call(request, 1), ConsumerGroupHeartbeatResponse)
        self.note("leaves")
        self.generation = 0


def _subscription() -> bytes:
    """What consumers put into JoinGroup: version 0, one topic, no user data."""
    name = RECORDS.encode()
    return b"\0\0" + (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name + b"\xff\xff\xff\xff"
