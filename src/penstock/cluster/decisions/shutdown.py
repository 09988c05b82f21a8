"""The controller's decision when a broker wants to stop: others take over its leaderships before it goes.

The broker leaves each in-sync set that has another live member, so that no request waits for it any more. Where it is
the only member it leads on until it is gone: no other broker could.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.cluster.decisions.decision import Decision
from penstock.cluster.decisions.leadership import check_broker_epoch, with_in_sync
from penstock.cluster.decisions.states import ChangedStates
from penstock.cluster.image import MetadataImage


def decide_shutdown(image: MetadataImage, node_id: int, broker_epoch: int) -> Decision[int]:
    """The result is the number of partitions that the broker still leads and that a live replica may take over.

    A partition whose other replicas are all gone or stopping does not count: to wait for them would be in vain. A
    repeated decision moves the partitions that can be moved by then. Raises ApiError(STALE_BROKER_EPOCH).
    """
    check_broker_epoch(image, node_id, broker_epoch)
    broker = image.brokers[node_id]
    brokers = image.brokers if broker.is_stopping else {**image.brokers, node_id: broker._replace(is_stopping=True)}
    staying = {each.node_id for each in brokers.values() if not each.is_stopping}
    states = ChangedStates(image)
    led_count = 0
    for topic in image.topics.values():
        for state in topic.partitions:
            if node_id not in state.isr:
                continue
            others = tuple(node for node in state.isr if node != node_id and node in brokers)
            if others:
                states.put(topic.name, with_in_sync(state, others, brokers))
            elif state.leader == node_id and any(node in staying for node in state.replicas):
                led_count += 1
    after = states.image()
    return Decision((led_count,), after if brokers is image.brokers else replace(after, brokers=brokers))
