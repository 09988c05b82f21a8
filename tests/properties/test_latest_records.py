"""A load that replays the last record of each key finds what a replay of every record finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinators.latest_records import LatestRecords
from penstock.coordinators.outcome import CoordinatorRecord
from penstock.core.steps import finish
from penstock.core.types import NO_PRODUCER_ID, TopicPartition
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.consumer.group import ConsumerGroup, ConsumerMember, Group
from penstock.groups.records.consumer_groups import (
    MemberState,
    RecordedAssignment,
    ResolvedExpression,
    encode_assignment,
    encode_consumer_group,
    encode_expression,
    encode_subscription,
    encode_target,
    encode_target_epoch,
)
from penstock.groups.records.consumer_offsets import (
    CommittedOffset,
    RecordedGroup,
    RecordedMember,
    encode_group,
    encode_offset,
)
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.groups.topics import TopicIdPartition
from penstock.protocol.records import CONTROL_COMMIT, EndMarker, Record, build_batch, build_end_marker

_GROUPS = ("g", "h")
_PARTITIONS = (0, 1)
_PRODUCERS = (7, 8)
_MEMBERS = ("a", "b")
_TOPIC_ID = b"orders".ljust(16)

_offsets = st.lists(st.tuples(st.sampled_from(_GROUPS), st.sampled_from(_PARTITIONS)), min_size=1, max_size=3)
_group, _member = st.sampled_from(_GROUPS), st.sampled_from(_MEMBERS)
_steps = st.one_of(
    st.tuples(st.just("commit"), _offsets, st.just(NO_PRODUCER_ID)),
    st.tuples(st.just("commit"), _offsets, st.sampled_from(_PRODUCERS)),
    st.tuples(st.just("delete offsets"), _offsets, st.just(NO_PRODUCER_ID)),
    st.tuples(st.just("end"), st.booleans(), st.sampled_from(_PRODUCERS)),
    st.tuples(st.just("classic generation"), _group, st.lists(_member, unique=True)),
    st.tuples(st.sampled_from(("subscribe", "assign", "leave")), _group, _member),
    st.tuples(st.just("delete group"), _group, st.none()),
)


class _Log:
    """A log, and the shard that every record of it was replayed into."""

    def __init__(self) -> None:
        self.data = b""
        self.end_offset = 0
        self.positions: dict[int, int] = {}  # of batches, by their first offsets
        self.whole = GroupShard(0, GroupSettings())

    def write(self, records: Sequence[CoordinatorRecord], producer_id: int = NO_PRODUCER_ID) -> None:
        for delta, (key, value) in enumerate(records):
            self.whole.replay(key, value, self.end_offset + delta, producer_id)
        is_transactional = producer_id != NO_PRODUCER_ID
        batch = build_batch(
            [Record(key, value) for key, value in records],
            base_offset=self.end_offset,
            producer_id=producer_id,
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        self._append(batch, len(records))

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        self.whole.offsets.replay_transaction_end(producer_id, is_committed)
        marker = EndMarker(CONTROL_COMMIT if is_committed else 0, 0)
        batch = build_end_marker(
            marker, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=self.end_offset
        )
        self._append(batch, 1)

    def _append(self, batch: bytes, record_count: int) -> None:
        self.positions[self.end_offset] = len(self.data)
        self.data += batch
        self.end_offset += record_count
        self.positions[self.end_offset] = len(self.data)

    def load(self, piece_size: int) -> GroupShard:
        """As a broker does: pieces end anywhere, and each has a whole batch at least."""
        records, loaded, offset = LatestRecords(), GroupShard(0, GroupSettings()), 0
        while offset < self.end_offset:
            start = self.positions[offset]
            end_of_batch = min(position for position in self.positions.values() if position > start)
            taken = finish(records.take(self.data[start : max(start + piece_size, end_of_batch)], offset))
            assert taken > offset
            offset = taken
        for key, value, record_offset, producer_id in records:
            loaded.replay(key, value, record_offset, producer_id)
        return loaded


def _group_records(shard: GroupShard, kind: str, group_id: str, what: Any, number: int) -> list[CoordinatorRecord]:
    """What a coordinator writes. A group of one kind ends before one of the other kind begins. A group goes with its
    offsets.
    """
    group = shard.groups.get(group_id)
    if kind == "classic generation":
        ended = group.tombstones() if isinstance(group, ConsumerGroup) else []
        members = tuple(RecordedMember(each, None, "c", "/", 1, number, b"", bytes([number])) for each in what)
        leader = what[0] if what else None
        return [*ended, encode_group(group_id, RecordedGroup("consumer", number, "range", leader, number, members))]
    if kind == "delete group":
        ended = group.tombstones() if isinstance(group, ConsumerGroup) else [encode_group(group_id, None)]
        return [*(encode_offset(group_id, *each, None) for each in shard.offsets.partitions_of(group_id)), *ended]
    ended = [encode_group(group_id, None)] if isinstance(group, ClassicGroup) else []
    return [*ended, *_member_records(kind, group_id, what, number)]


def _member_records(kind: str, group_id: str, member_id: str, number: int) -> list[CoordinatorRecord]:
    """Of a KIP-848 group."""
    epoch = encode_consumer_group(group_id, number, number)
    member = ConsumerMember(member_id, instance_id=f"static-{member_id}", client_id=str(number))
    if kind == "subscribe":
        resolved = ResolvedExpression(frozenset({"orders"}), number, number)
        return [
            encode_subscription(group_id, member_id, member.subscription()),
            encode_expression(group_id, "o.*", resolved if number % 2 else None),
            epoch,
        ]
    if kind == "leave":
        return [
            encode_assignment(group_id, member_id, None),
            encode_target(group_id, member_id, None),
            encode_subscription(group_id, member_id, None),
            epoch,
        ]
    # A partition has one owner at a time.
    partition = TopicIdPartition(_TOPIC_ID, 2 * number + _MEMBERS.index(member_id))
    assignment = RecordedAssignment(number, number - 1, MemberState.STABLE, {partition: number}, {})
    return [
        encode_subscription(group_id, member_id, member.subscription()),
        epoch,
        encode_target(group_id, member_id, [partition]),
        encode_target_epoch(group_id, number),
        encode_assignment(group_id, member_id, assignment),
    ]


def _view(shard: GroupShard) -> dict[str, Any]:
    """Committed offsets, and those of open transactions, of which none comes first; and the groups."""
    offsets, partitions = shard.offsets, [TopicPartition("orders", index) for index in _PARTITIONS]
    return {
        group_id: (
            [
                (
                    offsets.get(group_id, each),
                    sorted(offsets.versions(group_id, each), key=lambda version: version.log_offset),
                )
                for each in partitions
            ],
            _view_group(shard.groups.get(group_id), bool(offsets.partitions_of(group_id))),
        )
        for group_id in _GROUPS
    }


def _view_group(group: Group | None, has_offsets: bool) -> Any:
    if isinstance(group, ConsumerGroup):
        epochs = (group.epoch, group.metadata_digest, group.target_epoch, group.target_timestamp_ms)
        return epochs, group.state, group.members, group.static_members, group.target, group.expressions, group.owners
    if group is None or (group.protocol_type is None and not has_offsets):
        return None  # offsets alone made the group, and compaction may have taken them away
    return group.state, group.image({}), group.members, group.static_members


@given(st.lists(_steps, max_size=30), st.integers(1, 2_000))
def test_the_last_records_lead_to_the_state_that_all_records_lead_to(
    steps: list[tuple[str, Any, Any]], piece_size: int
) -> None:
    log = _Log()
    for number, (kind, what, more) in enumerate(steps, 1):
        if kind == "end":
            log.end_transaction(more, is_committed=what)
        elif kind in ("commit", "delete offsets"):
            committed = CommittedOffset(number, 0, "", number) if kind == "commit" else None
            log.write([encode_offset(group, "orders", index, committed) for group, index in what], more)
        else:
            log.write(_group_records(log.whole, kind, what, more, number))
    assert _view(log.load(piece_size)) == _view(log.whole)
