"""Which partitions a follower's request names."""

from __future__ import annotations

from pathlib import Path

from penstock.broker.replicas.fetch_requests import FetchRequests
from penstock.broker.replicas.followed import Followed
from tests.unit.broker.harness import Host, topic_image

NOW_MS, LATER_MS = 1_000, 2_000


def test_partition_is_named_again_when_it_failed_and_nothing_else_was_asked_meanwhile(tmp_path: Path) -> None:
    """The leader did not know the topic yet. It looks again only at what a request names."""
    host = Host(tmp_path)
    host.apply(topic_image("a"))
    followed = Followed(host.partition("a"), 0)
    requests = FetchRequests(1_000)
    requests.add(followed)
    assert [len(topic.partitions) for topic in requests.build(NOW_MS)[0]] == [1]
    requests.note_session(7)
    assert requests.build(NOW_MS) == ([], [])  # nothing has changed
    requests.delay(followed, LATER_MS)
    assert not requests.has_something_to_ask
    topics, forgotten = requests.build(LATER_MS)
    assert [[each.partition for each in topic.partitions] for topic in topics] == [[0]]
    assert forgotten == []
    host.directories.close()
