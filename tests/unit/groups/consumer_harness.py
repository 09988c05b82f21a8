"""The runtime of `harness`, with topics and with members of the KIP-848 protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.coordinators.outcome import CoordinatorRecord
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.operations.table import CONSUMER_HEARTBEAT, DESCRIBE_CONSUMER_GROUP
from penstock.groups.requests import ConsumerHeartbeatRequest, DescribeGroupRequest
from penstock.groups.results import ConsumerHeartbeatResult
from penstock.groups.settings import GroupSettings
from penstock.groups.topics import Topic, TopicIdPartition, Topics
from tests.unit.groups.harness import GROUP, Runtime

# Tests that are not about it do not wait between two targets.
AT_ONCE = GroupSettings(consumer_assignment_interval_ms=0)
ORDERS, USERS = b"o" * 16, b"u" * 16
TOPICS = Topics.of([Topic("orders", ORDERS, 4), Topic("users", USERS, 2)])
REVOCATION_MS = 30_000


def of_orders(*indexes: int) -> tuple[TopicIdPartition, ...]:
    return tuple(TopicIdPartition(ORDERS, index) for index in indexes)


def of_users(*indexes: int) -> tuple[TopicIdPartition, ...]:
    return tuple(TopicIdPartition(USERS, index) for index in indexes)


class ConsumerRuntime(Runtime):
    def __init__(
        self,
        settings: GroupSettings = AT_ONCE,
        topics: Topics = TOPICS,
        log: list[CoordinatorRecord] | None = None,
        suffixes: Iterator[int] | None = None,
    ) -> None:
        super().__init__(settings, log=log, suffixes=suffixes)
        self.groups.on_topics_changed(topics)

    def restarted(self) -> ConsumerRuntime:
        return ConsumerRuntime(self.groups.shards.settings, self.groups.topics, self.log, self.suffixes)

    def beat(self, member_id: str, epoch: int, **more: Any) -> ConsumerHeartbeatResult:
        token = self.token()
        request = ConsumerHeartbeatRequest(
            **{
                "group_id": GROUP,
                "member_id": member_id,
                "member_epoch": epoch,
                "client_id": "client",
                "client_host": "/127.0.0.1",
                **more,
            }
        )
        self.run(self.groups.shards.perform(CONSUMER_HEARTBEAT, token, request, self.now_ms))
        return self.answer(token, ConsumerHeartbeatResult)

    def enter(self, member_id: str, *topics: str, **more: Any) -> ConsumerHeartbeatResult:
        """Joins (again)."""
        values: dict[str, Any] = {
            "rebalance_timeout_ms": REVOCATION_MS,
            "topic_names": frozenset(topics or ("orders",)),
            "owned": frozenset(),
        }
        return self.beat(member_id, 0, **{**values, **more})

    def owns(self, member_id: str, epoch: int, *owned: TopicIdPartition) -> ConsumerHeartbeatResult:
        return self.beat(member_id, epoch, owned=frozenset(owned))

    def consumer_group(self, group_id: str = GROUP) -> ConsumerGroup:
        group = self.groups.shards.hosted(0).groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def consumer_state(self) -> str:
        return self.groups.shards.read(DESCRIBE_CONSUMER_GROUP, DescribeGroupRequest(GROUP)).state


def durable(group: ConsumerGroup) -> dict[str, Any]:
    """What replay has to bring back."""
    return {
        name: getattr(group, name)
        for name in (
            "epoch",
            "metadata_digest",
            "target_epoch",
            "target_timestamp_ms",
            "members",
            "static_members",
            "target",
            "expressions",
            "owners",
        )
    }
