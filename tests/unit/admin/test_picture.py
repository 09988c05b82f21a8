"""What a picture of a cluster costs, and what is left of it where brokers do not answer."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.admin.async_admin import AsyncAdmin
from penstock.admin.look import Look
from penstock.admin.picture import EVERYTHING, Wish, keep_earlier, read_picture
from penstock.admin.queries.configs import Settings
from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.configs import ConfigPlace
from penstock.admin.state.parts import Part, Partial
from penstock.client.brokers import Brokers
from penstock.core.types import TopicPartition
from tests.own_time import run_in_own_time
from tests.unit.admin.fake_wire import FakeWire

KEYS = ("min.insync.replicas",)
PATIENCE_S = 5.0


def read(wire: FakeWire, wish: Wish | None = None, before: ClusterState | None = None) -> ClusterState:
    async def look() -> ClusterState:
        return await read_picture(Look(wire, PATIENCE_S), wish or Wish(config_keys=KEYS), before)

    return run_in_own_time(look())


def test_full_picture_takes_at_most_forty_requests_when_there_are_10_000_partitions_and_500_groups() -> None:
    wire = FakeWire(
        {"__consumer_offsets": 50, **{f"topic-{number}": 10 for number in range(995)}},
        {f"group-{number}": "consumer" if number % 5 == 0 else "classic" for number in range(500)},
    )
    state = read(wire)
    assert state.failures == ()
    assert (len(state.partitions), len(state.first_offsets), len(state.last_offsets)) == (10_000, 10_000, 10_000)
    assert (len(state.files), len(state.configs), len(state.groups)) == (10_000, 996, 500)
    assert all(group.members == () and group.committed for group in state.groups.values())
    connecting = 2  # the versions of a broker are asked for on each connection; another one finds the first broker
    assert sum(wire.asked.values()) + connecting <= 40
    assert max(wire.sizes["partitions"]) == 1_000
    assert max(wire.sizes["commits"]) == 50
    assert wire.most_at_once <= 2  # the one broker has other clients


def test_brokers_are_asked_side_by_side_when_there_are_several() -> None:
    wire = FakeWire({"orders": 30}, brokers=(1, 2, 3))
    state = read(wire)
    assert wire.most_at_once > 2
    assert wire.asked["DescribeLogDirs"] == 3
    assert len(state.last_offsets) == 30


def test_the_rest_is_there_when_a_broker_is_silent() -> None:
    wire = FakeWire({"orders": 4}, {"g": "classic"}, brokers=(1, 2))
    wire.silent = {2}
    state = read(wire)
    assert state.brokers[1].is_alive
    assert state.brokers[2].silence == f"no answer within {PATIENCE_S:g} s"
    assert sorted(state.last_offsets) == [TopicPartition("orders", 0), TopicPartition("orders", 2)]
    assert {failure.node_id for failure in state.failures} == {2}
    assert [failure.reason for failure in state.failures_of(Part.LAST_OFFSETS)] == [state.brokers[2].silence]
    assert state.groups["g"].committed
    assert set(wire.ended) == {2}


def test_broker_is_not_asked_again_in_the_same_look_when_it_was_silent() -> None:
    wire = FakeWire({f"t{number}": 1_000 for number in range(10)}, brokers=(1,))
    wire.silent = {1}
    read(wire, Wish({Part.LAST_OFFSETS}))
    assert wire.asked["ListOffsets"] == 2  # of ten: those that were on their way


def test_reason_is_told_at_once_when_a_broker_takes_no_connection() -> None:
    wire = FakeWire({"orders": 2}, brokers=(1, 2))
    wire.refusing = {2}
    state = read(wire)
    assert state.brokers[2].silence == "Connection refused"


def test_question_is_asked_again_when_a_kept_connection_turns_out_to_be_dead() -> None:
    wire = FakeWire({"orders": 1})
    wire.losing = 1
    state = read(wire, Wish({Part.LAST_OFFSETS}))
    assert state.failures == ()
    assert state.last_offsets == {TopicPartition("orders", 0): 7}


@pytest.mark.parametrize(("is_hurried", "expected_s"), [(True, PATIENCE_S / 5), (False, PATIENCE_S)])
def test_broker_is_waited_for_a_moment_alone_when_it_was_silent_in_the_same_look(
    is_hurried: bool, expected_s: float
) -> None:
    wire = FakeWire({"orders": 2}, brokers=(1, 2))
    wire.silent = {2}
    wire.lost_in_sight = {2} if is_hurried else set()
    state = read(wire)
    assert state.brokers[2].silence == f"no answer within {expected_s:g} s"
    again = read(wire)  # a new look has its full patience
    assert again.brokers[2].silence == f"no answer within {PATIENCE_S:g} s"


@pytest.mark.parametrize("is_refusing", [True, False])
def test_next_broker_tells_settings_when_the_first_one_is_silent(is_refusing: bool) -> None:
    wire = FakeWire({"orders": 1}, brokers=(1, 2))
    (wire.refusing if is_refusing else wire.silent).add(1)
    place = ConfigPlace.topic("orders")

    async def ask() -> tuple[Partial[Settings], ClusterState]:
        admin = AsyncAdmin(cast("Brokers", wire), PATIENCE_S)
        return await admin.configs([place], KEYS), await admin.read({Part.CONFIGS}, config_keys=KEYS)

    (found, failures), state = run_in_own_time(ask())
    assert failures == state.failures == ()
    assert set(found) == set(state.configs) == {place}


def test_settings_are_missing_once_when_no_broker_tells_them() -> None:
    wire = FakeWire({f"t{number}": 1 for number in range(3_000)}, brokers=(1, 2))
    wire.silent = {1, 2}
    state = read(wire, Wish({Part.CONFIGS}, KEYS))
    assert [str(failure) for failure in state.failures] == [f"{KEYS[0]}: no answer within {PATIENCE_S:g} s"]


def test_groups_have_their_names_alone_when_their_kind_is_not_known() -> None:
    wire = FakeWire({"orders": 1}, {"g": "classic", "s": "share", "n": "consumer", "old": ""})
    state = read(wire)
    assert {each.group_id: each.kind for each in state.groups.values()} == {
        "g": "classic",
        "s": "share",
        "n": "consumer",
        "old": "classic",
    }
    assert (state.groups["s"].state, state.groups["s"].members, state.groups["s"].committed) == ("Empty", None, None)
    assert state.groups["n"].committed
    assert state.failures == ()


def test_commits_come_one_group_at_a_time_when_the_broker_is_older() -> None:
    wire = FakeWire({"orders": 1}, {"g": "classic", "h": "classic"}, offset_fetch_version=7)
    state = read(wire)
    assert wire.sizes["commits"] == [1, 1]
    for group in state.groups.values():
        assert group.committed is not None
        assert group.committed[TopicPartition("orders", 0)].offset == 5


def test_only_what_is_wanted_is_asked_for() -> None:
    wire = FakeWire({"orders": 1}, {"g": "classic"})
    state = read(wire, Wish({Part.COMMITS}))
    assert dict(wire.asked) == {"Metadata": 1, "ListGroups": 1, "OffsetFetch": 1}
    assert set(state.parts) == {Part.TOPICS, Part.GROUPS, Part.COMMITS}


def test_parts_of_the_earlier_picture_stay_with_their_age_when_they_are_not_read() -> None:
    wire = FakeWire({"orders": 1}, {"g": "classic"})
    first = read(wire)
    second = read(wire, Wish({Part.GROUPS, Part.LAST_OFFSETS}), first)
    assert second.parts[Part.LAST_OFFSETS].at_s > first.parts[Part.LAST_OFFSETS].at_s
    for part in (Part.DIRECTORIES, Part.MEMBERS, Part.COMMITS, Part.CONFIGS, Part.FIRST_OFFSETS):
        assert second.parts[part] == first.parts[part]
    assert second.files == first.files
    assert second.brokers == first.brokers
    assert (second.groups, second.configs) == (first.groups, first.configs)
    assert set(second.parts) == EVERYTHING


def test_part_of_the_earlier_picture_stays_with_the_reason_when_no_broker_tells_it_now() -> None:
    wire = FakeWire({"orders": 1}, {"g": "classic"})
    first = read(wire)
    wire.silent = {1}
    second = read(wire, before=first)
    assert second.last_offsets == first.last_offsets
    assert second.parts[Part.LAST_OFFSETS].at_s == first.parts[Part.LAST_OFFSETS].at_s
    assert second.failures_of(Part.LAST_OFFSETS)
    assert second.groups == first.groups
    assert second.brokers[1].silence
    assert second.brokers[1].directories == first.brokers[1].directories


def test_earlier_picture_adds_nothing_when_all_was_read() -> None:
    wire = FakeWire({"orders": 1}, {"g": "classic"})
    first, second = read(wire), read(wire)
    assert keep_earlier(second, first) == second
