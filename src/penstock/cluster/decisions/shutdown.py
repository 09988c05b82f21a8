"""The controller's decision when a broker wants to stop: others lead what it leads before it goes.

The broker leaves each in-sync set that has another live member, so that no request waits for it any more. Where it is
the only member it leads on until it is gone: nobody else could.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.cluster.decisions.decision import Decision
from penstock.cluster.decisions.leadership import check_broker_epoch, with_in_sync
from penstock.cluster.decisions.states import ChangedStates
from penstock.cluster.image import MetadataImage


def decide_shutdown(image: MetadataImage, node_id: int, broker_epoch: int) -> Decision[int]:
    """The result is the number of partitions with other replicas that the broker still leads.

    A partition with one replica does not count, as in Kafka: to wait for it would be in vain. Asked again, the decision
    moves what can be moved by then. Raises ApiError(STALE_BROKER_EPOCH).
    """
    check_broker_epoch(image, node_id, broker_epoch)
    broker = image.brokers[node_id]
    brokers = image.brokers if broker.is_stopping else {**image.brokers, node_id: broker._replace(is_stopping=True)}
    states = ChangedStates(image)
    led_count = 0
    for topic in image.topics.values():
        for state in topic.partitions:
            if node_id not in state.isr:
                continue
            others = tuple(node for node in state.isr if node != node_id and node in brokers)
            if others:
                states.put(topic.name, with_in_sync(state, others, brokers))
            elif state.leader == node_id and len(state.replicas) > 1:
                led_count += 1
    after = states.image()
    return Decision((led_count,), after if brokers is image.brokers else replace(after, brokers=brokers))
