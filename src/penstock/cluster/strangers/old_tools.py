"""Sees what Kafka's tools before 3.0 ask of a controller, while one is in office.

They write topics, settings, rules and requests into ZooKeeper, and leave a notice where the controllers of their time
looked for it. Nobody carries that out here. So whoever used one of them is told which command does it, once for each.
What they changed in nodes of ours is found by the next controller (`changed_nodes`).
"""

from __future__ import annotations

from penstock.cluster.image import MetadataImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store
from penstock.cluster.store.walking import AllowedReads
from penstock.cluster.strangers.reports import warn_of_ignored

# Each has a node for each request or notice.
_QUEUES = ("/admin/delete_topics", "/config/changes", "/kafka-acl-changes", "/kafka-acl-extended-changes")
_REQUESTS = ("/admin/reassign_partitions", "/admin/preferred_replica_election")
# Paths that are remembered, so that a store full of them costs little.
_MOST_TOLD = 1_000


class OldTools:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: set[str] = set()

    async def look(self, drawn: MetadataImage) -> None:
        """Warns of what has come since the last look. `drawn` is what our own nodes show. Raises StoreError."""
        reads = AllowedReads(self._store)
        found = [f"{queue}/{name}" for queue in _QUEUES for name in await reads.names(queue)]
        found += await reads.read(_REQUESTS)
        found += [znodes.topic_path(name) for name in await reads.names(znodes.TOPICS) if name not in drawn.topics]
        self._told.intersection_update(found)  # a request that comes a second time is told a second time
        new = [path for path in found if path not in self._told][: _MOST_TOLD - len(self._told)]
        self._told.update(new)
        warn_of_ignored(new)
