"""What a fault works on, and what all faults share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proof.cluster.members import Broker, FaultCluster

# For how long a broker is down, some of the times for longer than its session of 2 s.
DOWN_S = (0.0, 3.5)
DEADLINE_S = 60.0


@dataclass
class FaultContext:
    """What a fault works on. `topics` are those that clients use now."""

    cluster: FaultCluster
    random: random.Random
    topics: Sequence[str]
    problems: list[str]

    def wait(self, bounds_s: tuple[float, float]) -> None:
        time.sleep(self.random.uniform(*bounds_s))

    def any_broker(self) -> Broker:
        return self.random.choice(self.cluster.brokers)

    def leader(self) -> Broker:
        """Of a partition that clients use."""
        led = self.cluster.partitions()
        leaders = [
            state.leader_id for (topic, _), state in sorted(led.items()) if topic in self.topics and state.leader_id > 0
        ]
        return self.cluster.broker(self.random.choice(leaders)) if leaders else self.any_broker()

    def controller(self) -> Broker:
        node_id = self.cluster.controller_id()
        return self.any_broker() if node_id is None else self.cluster.broker(node_id)

    def victim(self) -> Broker:
        return self.random.choice((self.any_broker, self.leader, self.controller))()


Fault = Callable[[FaultContext], str]
