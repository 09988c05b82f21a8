from __future__ import annotations

import tracemalloc

import pytest

from penstock.groups.subscription import decode_subscribed_topics
from tests.unit.groups.harness import subscription


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_topics_are_read_when_the_subscription_has_any_known_version(version: int) -> None:
    assert decode_subscribed_topics(subscription("orders", "payments", version=version)) == frozenset(
        {"orders", "payments"}
    )


def test_topics_are_read_when_a_future_version_appends_fields() -> None:
    future = (99).to_bytes(2, "big") + subscription("orders", version=0)[2:] + b"more"
    assert decode_subscribed_topics(future) == frozenset({"orders"})


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\x00",
        b"\x00\x00",
        b"\xff\xff" + subscription("orders")[2:],
        b"\x00\x00\x7f\xff\xff\xff",
        b"{json}",
        bytes(3),
    ],
)
def test_nothing_is_known_when_the_metadata_is_not_a_subscription(garbage: bytes) -> None:
    assert decode_subscribed_topics(garbage) is None


def test_no_memory_is_held_when_members_with_large_subscriptions_are_gone() -> None:
    tracemalloc.start()
    try:
        for number in range(10):
            assert decode_subscribed_topics(subscription("orders", f"{number}" * 30_000) + bytes(1 << 20))
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
