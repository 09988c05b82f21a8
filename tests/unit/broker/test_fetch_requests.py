"""Which partitions a follower's request names."""

from __future__ import annotations

from pathlib import Path

from penstock.broker.partitions.throttling import Throttle
from penstock.broker.replicas.fetch_requests import FetchRequests
from penstock.broker.replicas.followed_partition import Followed
from penstock.broker.replicas.throttled_fetches import ThrottledFetches
from penstock.cluster.image import PartitionState
from penstock.protocol.messages.fetch import FetchTopic
from tests.unit.broker.harness import NODE, Host, topic_image

NOW_MS, LATER_MS = 1_000, 2_000
LEADER = 2
MAX_BYTES = 1_000


def requests_of(throttle: Throttle) -> FetchRequests:
    return FetchRequests(ThrottledFetches(throttle, NODE, MAX_BYTES))


def asked(topics: list[FetchTopic]) -> dict[int, int]:
    """The most bytes of each partition that is named."""
    return {each.partition: each.partition_max_bytes for topic in topics for each in topic.partitions}


def test_partition_is_named_again_when_it_failed_and_nothing_else_was_asked_meanwhile(tmp_path: Path) -> None:
    """The leader did not know the topic yet. It looks again only at what a request names."""
    host = Host(tmp_path)
    host.apply(topic_image("a"))
    followed = Followed(host.partition("a"), 0)
    requests = requests_of(Throttle(host.clock))
    requests.add(followed)
    assert [len(topic.partitions) for topic in requests.build(NOW_MS)[0]] == [1]
    requests.note_session(7)
    assert requests.build(NOW_MS) == ([], [])  # nothing has changed
    requests.delay(followed, LATER_MS)
    assert not requests.has_something_to_ask()
    topics, forgotten = requests.build(LATER_MS)
    assert [[each.partition for each in topic.partitions] for topic in topics] == [[0]]
    assert forgotten == []
    host.directories.close()


def behind(host: Host, count: int) -> list[Followed]:
    """Partitions that another broker leads, and for which this one is not in sync."""
    states = tuple(PartitionState(index, (LEADER, NODE), (LEADER,), LEADER) for index in range(count))
    host.apply(topic_image("a")._replace(partitions=states))
    return [Followed(host.partition("a", index), 0) for index in range(count)]


def throttled(host: Host, rate: int) -> Throttle:
    throttle = Throttle(host.clock)
    throttle.name("a", range(100))
    throttle.limit(rate, 11, 1_000)
    return throttle


def test_as_many_partitions_are_asked_for_as_there_is_room_when_they_are_throttled(tmp_path: Path) -> None:
    host = Host(tmp_path)
    throttle = throttled(host, 2_500)
    requests = requests_of(throttle)
    partitions = behind(host, 5)
    for followed in partitions:
        requests.add(followed)
    topics, _ = requests.build(NOW_MS)
    assert asked(topics) == {0: 1_000, 1: 1_000, 2: 500}
    requests.note_session(7)
    for followed in partitions[:3]:
        requests.note_taken(followed, 800)
    assert requests.build(NOW_MS)[0] != []  # there was room for 100 more
    requests.note_session(7)
    requests.note_taken(partitions[3], 1_000)
    assert not requests.has_something_to_ask()
    free_ms = requests.next_due_ms(NOW_MS)
    assert free_ms is not None
    assert free_ms > NOW_MS
    host.clock.advance(free_ms - NOW_MS)
    assert requests.has_something_to_ask()
    topics, forgotten = requests.build(free_ms)
    assert list(asked(topics)) == [4]  # it has waited longest
    assert [index for topic in forgotten for index in topic.partitions] == [3]
    host.directories.close()


def test_a_partition_keeps_its_turn_when_the_answer_had_nothing_for_it(tmp_path: Path) -> None:
    host = Host(tmp_path)
    requests = requests_of(throttled(host, 1_000))
    for followed in behind(host, 3):
        requests.add(followed)
    assert asked(requests.build(NOW_MS)[0]) == {0: 1_000}
    requests.note_session(7)
    assert requests.build(NOW_MS) == ([], [])  # still asked for
    assert not requests.is_empty
    host.directories.close()


def test_one_request_alone_has_leave_when_the_rate_is_below_one_batch(tmp_path: Path) -> None:
    """Of two leaders, say. The other asks when the first has answered, or has failed."""
    host = Host(tmp_path)
    throttle = throttled(host, 0)
    first, second = requests_of(throttle), requests_of(throttle)
    one, other = behind(host, 2)
    first.add(one)
    second.add(other)
    assert asked(first.build(NOW_MS)[0]) == {0: 1}
    assert not second.has_something_to_ask()
    first.reset()
    assert second.has_something_to_ask()
    assert asked(second.build(NOW_MS)[0]) == {1: 1}
    second.remove(other.key)
    assert throttle.granted == 0
    host.directories.close()


def test_a_partition_is_asked_for_without_bounds_when_it_is_throttled_no_more(tmp_path: Path) -> None:
    host = Host(tmp_path)
    throttle = throttled(host, 10)
    requests = requests_of(throttle)
    partitions = behind(host, 2)
    for followed in partitions:
        requests.add(followed)
    assert asked(requests.build(NOW_MS)[0]) == {0: 10}
    requests.note_session(7)
    throttle.name("a", None)
    for followed in partitions:
        requests.look_again(followed.key)
    assert asked(requests.build(NOW_MS)[0]) == {0: 1_000, 1: 1_000}
    assert throttle.granted == 0
    host.directories.close()
