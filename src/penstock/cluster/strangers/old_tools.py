"""Finds the requests of Kafka's tools before 3.0 to a controller, during a controller's term.

These tools write topics, settings, ACLs and requests into ZooKeeper, and leave a notice where the controllers of their
time looked for it. No broker performs these requests. So a warning tells the user of such a tool the right command,
once for each. The next controller finds their changes of our own nodes (`changed_nodes`).
"""

from __future__ import annotations

from penstock.cluster.image import MetadataImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store
from penstock.cluster.store.tree_walk import AllowedReads
from penstock.cluster.strangers.reports import Told, warn_of_ignored

# Each has a node for each request or notice.
_QUEUES = ("/admin/delete_topics", "/config/changes", "/kafka-acl-changes", "/kafka-acl-extended-changes")
_REQUESTS = ("/admin/reassign_partitions", "/admin/preferred_replica_election")


class OldTools:
    def __init__(self, store: Store, told: Told) -> None:
        self._store = store
        self._told = told

    async def look(self, drawn: MetadataImage) -> None:
        """Warns of requests since the last look. `drawn` is the image in our own nodes. Raises StoreError."""
        reads = AllowedReads(self._store)
        found = [f"{queue}/{name}" for queue in _QUEUES for name in await reads.names(queue)]
        found += await reads.read(_REQUESTS)
        found += [znodes.topic_path(name) for name in await reads.names(znodes.TOPICS) if name not in drawn.topics]
        warn_of_ignored(self._told.news("requests of old tools", dict.fromkeys(found, b"")))
