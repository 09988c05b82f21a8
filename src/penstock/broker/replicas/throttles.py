"""The two throttles of a broker, kept in step with the image: one for its sends as a leader, one for its fetches as a
follower.

Topics name the throttled replicas, as `partition:broker` pairs or `*`. The broker in a pair is the leader in one list
and the follower in the other: each broker looks for itself. The broker's own settings limit the rates.
"""

from __future__ import annotations

from penstock.broker.partitions.leader_context import LeaderContext
from penstock.broker.partitions.throttling import Throttle
from penstock.cluster.image import ImageDelta, TopicImage
from penstock.core.config.keys.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS
from penstock.core.config.sections import ThrottleSection
from penstock.replication.throttle import throttled_partitions


class Throttles:
    def __init__(self, context: LeaderContext) -> None:
        self._context = context
        self.leader = Throttle(context.clock)
        self.follower = Throttle(context.clock)

    def limit(self, settings: ThrottleSection) -> None:
        windows = settings.replication_quota_window_num, settings.replication_quota_window_size_seconds * 1000
        self.leader.limit(settings.leader_replication_throttled_rate, *windows)
        self.follower.limit(settings.follower_replication_throttled_rate, *windows)
        self.leader.changed()

    def follow(self, delta: ImageDelta) -> bool:
        """Whether other partitions may be throttled now."""
        named = [self._name(topic, is_gone=True) for topic in delta.deleted]
        named += [self._name(topic) for topic in (*delta.created, *delta.configured)]
        if not any(named):
            return False
        self._context.throttle = self.leader if self.leader.topics else None
        self.leader.changed()
        return True

    def _name(self, topic: TopicImage, *, is_gone: bool = False) -> bool:
        is_changed = False
        for throttle, key in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
            text = None if is_gone else topic.configs.get(key)
            partitions = throttled_partitions(text, self._context.node_id) if text else None
            if partitions or topic.name in throttle.topics:
                throttle.name(topic.name, partitions or None)
                is_changed = True
        return is_changed
