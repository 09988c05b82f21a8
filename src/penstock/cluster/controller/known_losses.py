"""The controller's knowledge of partitions without a leader because the disk of their last in-sync replica has failed.

Without it the election after each broker that comes or goes would elect the replica, and the next report of its broker
would take the leadership back. A loss is known for one state of the partition and one epoch of the broker. When either
changes, the replica may be a new replica on another disk, so the loss counts no more; if it is still lost, its broker
reports it again. For the same reason a controller need not forget anything at the end of its term, and a new controller
begins with nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cluster.decisions.lost_replicas import KnownLoss, Losses
from penstock.cluster.image import NO_LEADER, MetadataImage
from penstock.replication.changes import LostReplica


class KnownLosses:
    def __init__(self) -> None:
        # Replaced, never changed: decisions read it in threads.
        self.by_partition: Losses = {}

    def note(self, image: MetadataImage, node_id: int, broker_epoch: int, lost: Sequence[LostReplica]) -> None:
        """Call after the decision on a broker's report. `image` is the newest image."""
        noted = {key: loss for key, loss in self.by_partition.items() if _is_current(image, key, loss)}
        for topic_id, partition in lost:
            topic = image.topics_by_id.get(topic_id)
            state = None if topic is None else topic.partition(partition)
            if state is not None and state.leader == NO_LEADER and node_id in state.isr:
                noted[topic_id, partition] = KnownLoss(state, node_id, broker_epoch)
        self.by_partition = noted


def _is_current(image: MetadataImage, key: tuple[bytes, int], loss: KnownLoss) -> bool:
    topic = image.topics_by_id.get(key[0])
    return topic is not None and topic.partition(key[1]) == loss.state
