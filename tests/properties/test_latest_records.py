"""A load that replays the last record of each key finds what a replay of every record finds."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinators.latest_records import LatestRecords
from penstock.core.steps import finish
from penstock.core.types import NO_PRODUCER_ID, TopicPartition
from penstock.groups.records.consumer_offsets import CommittedOffset, encode_offset
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.protocol.records import CONTROL_COMMIT, EndMarker, Record, build_batch, build_end_marker

_GROUPS = ("g", "h")
_PARTITIONS = (0, 1)
_PRODUCERS = (7, 8)

_offsets = st.lists(st.tuples(st.sampled_from(_GROUPS), st.sampled_from(_PARTITIONS)), min_size=1, max_size=3)
_steps = st.one_of(
    st.tuples(st.just("commit"), _offsets, st.just(NO_PRODUCER_ID)),
    st.tuples(st.just("commit"), _offsets, st.sampled_from(_PRODUCERS)),
    st.tuples(st.just("delete"), _offsets, st.just(NO_PRODUCER_ID)),
    st.tuples(st.just("end"), st.booleans(), st.sampled_from(_PRODUCERS)),
)


def _view(shard: GroupShard) -> dict[str, Any]:
    """Committed offsets, and those of open transactions, of which none comes first. Groups without any do not count:
    compaction may have taken away what they came from.
    """
    offsets, partitions = shard.offsets, [TopicPartition("orders", index) for index in _PARTITIONS]
    return {
        group: [
            (offsets.get(group, each), sorted(offsets.versions(group, each), key=lambda version: version.log_offset))
            for each in partitions
        ]
        for group in _GROUPS
    }


@given(st.lists(_steps, max_size=30))
def test_the_last_records_lead_to_the_state_that_all_records_lead_to(steps: list[tuple[str, Any, int]]) -> None:
    whole = GroupShard(0, GroupSettings())
    data, end_offset = b"", 0
    for number, (kind, what, producer_id) in enumerate(steps):
        if kind == "end":
            whole.offsets.replay_transaction_end(producer_id, what)
            marker = EndMarker(CONTROL_COMMIT if what else 0, 0)
            data += build_end_marker(
                marker, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=end_offset
            )
            end_offset += 1
            continue
        committed = CommittedOffset(number, 0, "", number) if kind == "commit" else None
        written = [encode_offset(group, "orders", index, committed) for group, index in what]
        for delta, (key, value) in enumerate(written):
            whole.replay(key, value, end_offset + delta, producer_id)
        is_transactional = producer_id != NO_PRODUCER_ID
        data += build_batch(
            [Record(key, value) for key, value in written],
            base_offset=end_offset,
            producer_id=producer_id,
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        end_offset += len(written)
    records, loaded = LatestRecords(), GroupShard(0, GroupSettings())
    assert finish(records.take(data, 0)) == end_offset
    for key, value, offset, producer_id in records:
        loaded.replay(key, value, offset, producer_id)
    assert _view(loaded) == _view(whole)
