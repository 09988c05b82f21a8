from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from penstock.cluster.deltas.delta import Delta, Replay, TopicChange, difference, replay
from penstock.cluster.deltas.encoding import decode_delta, encode_delta
from penstock.cluster.deltas.security import NO_SECURITY_DELTA
from penstock.cluster.image import PartitionState, TopicImage
from penstock.cluster.security_image import SecurityImage
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.unit.cluster.harness import cluster

TOPIC = TopicImage("t", b"t" * 16, tuple(PartitionState(index, (1,), (1,), 1) for index in range(3)))


def test_other_topics_stay_the_same_objects_when_a_delta_is_replayed() -> None:
    image = cluster().with_topics({"t": TOPIC, "other": TOPIC._replace(name="other", topic_id=b"o" * 16)})
    state = TOPIC.partitions[1]._replace(leader_epoch=1, partition_epoch=1)
    changed = TOPIC._replace(partitions=(TOPIC.partitions[0], state, TOPIC.partitions[2]))
    delta = difference(image, image.with_topics({"t": changed}))
    assert delta is not None
    assert delta.changed == (TopicChange("t", TOPIC.topic_id, 3, (state,)),)
    after = replay(image, delta)
    assert after.topics["other"] is image.topics["other"]
    assert after.topics["t"].partitions[0] is TOPIC.partitions[0]


class CountedDict(dict[ResourcePattern, tuple[AclEntry, ...]]):
    """Counts who goes through all of it."""

    passes = 0

    def keys(self) -> Any:
        self.passes += 1
        return super().keys()

    def items(self) -> Any:
        self.passes += 1
        return super().items()

    def __iter__(self) -> Iterator[ResourcePattern]:
        self.passes += 1
        return super().__iter__()


def test_rules_are_copied_once_when_many_deltas_come() -> None:
    """A start took half a minute: a thousand deltas of one rule, and 100,000 resources with rules."""
    resource = ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
    rules = [AclEntry(f"User:{number}", "*", Operation.READ, Permission.ALLOW) for number in range(20)]
    present = CountedDict({resource: (rules[0],), resource._replace(name="other"): (rules[0],)})
    way = Replay(replace(cluster(), security=SecurityImage(present)))
    for before, rule in pairwise(rules):
        change = NO_SECURITY_DELTA._replace(acls_added={resource: (rule,)}, acls_removed={resource: (before,)})
        way.follow(Delta(1, "", 0, 0, security=change))
    assert way.image.security.acls == {resource: (rules[-1],), resource._replace(name="other"): (rules[0],)}
    assert present.passes == 1


def test_change_is_left_out_when_the_topic_was_made_anew() -> None:
    anew = cluster().with_topics({"t": TOPIC._replace(topic_id=b"u" * 16)})
    late = Delta(4, "id", 1, 1, changed=(TopicChange("t", TOPIC.topic_id, 3, TOPIC.partitions[:1]),))
    assert replay(anew, late).topics == anew.topics


def test_delta_is_refused_when_a_partition_in_between_is_missing() -> None:
    image = cluster().with_topics({"t": TOPIC})
    delta = Delta(1, "id", 1, 1, changed=(TopicChange("t", TOPIC.topic_id, 4, (PartitionState(4, (1,), (1,), 1),)),))
    with pytest.raises(ValueError, match="partition 4 cannot come"):
        replay(image, delta)


def test_reader_is_told_to_update_when_the_format_is_newer() -> None:
    value = json.loads(zlib.decompress(encode_delta(Delta(1, "id", 1, 1))))
    newer = zlib.compress(json.dumps({**value, "format": 4}).encode())
    with pytest.raises(StoreError, match=r"in format 4, .* reads format 3: update this broker") as error:
        decode_delta("/penstock/log/0000000001", newer)
    assert error.value.kind is StoreErrorKind.CORRUPT


@pytest.mark.parametrize("data", [b"", b"x", zlib.compress(b"{}"), zlib.compress(b"[]"), zlib.compress(b"1")])
def test_node_is_named_when_it_holds_no_delta(data: bytes) -> None:
    with pytest.raises(StoreError, match="/penstock/log/0000000007: the delta cannot be understood") as error:
        decode_delta("/penstock/log/0000000007", data)
    assert error.value.kind is StoreErrorKind.CORRUPT


def test_delta_is_small_when_many_partitions_are_alike() -> None:
    states = tuple(PartitionState(index, (1, 2, 3), (1, 2, 3), 1 + index % 3) for index in range(10_000))
    delta = Delta(1, "id", 1, 1, created=(TopicImage("t", b"t" * 16, states),))
    data = encode_delta(delta)
    assert len(data) < 100_000
    assert decode_delta("/x", data) == delta
