"""What operators hear of groups: rebalances come and go without a line, members that are put out are named."""

from __future__ import annotations

import logging

from penstock.groups.requests import Protocol
from tests.unit.groups.consumer_harness import ConsumerRuntime
from tests.unit.groups.harness import REBALANCE_MS, SESSION_MS, Runtime, subscription

SESSION_EXPIRED = "a member is out of its group: no heartbeat came within the session timeout"
READABLE = (Protocol("range", subscription("orders")),)


def test_nothing_is_said_when_members_join_rebalance_and_leave() -> None:
    runtime = Runtime()
    members = runtime.stable_group(2, READABLE)
    for member in members:
        runtime.join(member, protocols=READABLE)
    assert runtime.notices == []


def test_process_is_named_when_its_session_expires() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1, READABLE)
    runtime.advance(SESSION_MS)
    (notice,) = runtime.notices
    assert (notice.level, notice.message) == (logging.INFO, SESSION_EXPIRED)
    assert notice.fields == {
        "group": "g",
        "member": member,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "timeout_ms": SESSION_MS,
    }


def test_member_is_named_when_it_does_not_rejoin_in_time() -> None:
    runtime = Runtime()
    first, second = runtime.stable_group(2, READABLE)
    runtime.join(first, protocols=READABLE)
    for _ in range(REBALANCE_MS // 5_000):
        runtime.advance(5_000)
        runtime.heartbeat(second, 1)
    (notice,) = runtime.notices
    assert notice.message == "a member is out of its group: it did not rejoin within the rebalance timeout"
    assert notice.fields["member"] == second


def test_reason_is_said_when_offsets_cannot_expire() -> None:
    runtime = Runtime()
    runtime.stable_group(1, (Protocol("range", b"{json}"),))
    (notice,) = runtime.notices
    assert notice.level == logging.WARNING
    assert "cannot be read" in notice.message


def test_process_is_named_when_the_session_of_a_kip_848_member_expires() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    assert runtime.notices == []
    runtime.advance(runtime.groups.shards.settings.consumer_session_timeout_ms)
    (notice,) = runtime.notices
    assert (notice.message, notice.fields["member"]) == (SESSION_EXPIRED, "a")
