"""Watches who leads: no two brokers may lead a partition at one leader epoch.

Every broker is asked for its metadata again and again, also while it is cut off from the others.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from penstock.admin import Admin, connect
from penstock.client.addresses import Address
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse

_INTERVAL_S = 0.1
_ANSWER_TIMEOUT_S = 2.0
_NOBODY = -1


class Term(NamedTuple):
    topic_id: bytes
    topic: str
    partition: int
    epoch: int


class LeaderWatch:
    """One thread for each broker: one that does not answer holds up nobody else."""

    def __init__(self, addresses: list[Address]) -> None:
        self.leaders: dict[Term, int] = {}
        self.problems: list[str] = []
        self._is_ending = threading.Event()
        self._lock = threading.Lock()
        self._admin: Admin | None = None
        self._addresses = addresses
        self._threads = [
            threading.Thread(target=self._watch, args=(address,), name=f"leaders-{address[1]}", daemon=True)
            for address in addresses
        ]

    def start(self) -> None:
        self._admin = connect(self._addresses, timeout_s=_ANSWER_TIMEOUT_S)
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._is_ending.set()
        for thread in self._threads:
            thread.join()
        if self._admin is not None:
            self._admin.close()

    def _watch(self, address: Address) -> None:
        assert self._admin is not None, "started"
        while not self._is_ending.wait(_INTERVAL_S):
            try:
                answer: MetadataResponse = self._admin.nodes.ask(address, MetadataRequest(topics=None))
            except (OSError, ApiError):
                continue
            with self._lock:
                self.note(answer)

    def note(self, answer: MetadataResponse) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.leader_id == _NOBODY:
                    continue
                term = Term(topic.topic_id, topic.name or "", partition.partition_index, partition.leader_epoch)
                leader = self.leaders.setdefault(term, partition.leader_id)
                if leader != partition.leader_id:
                    self.problems.append(
                        f"{term.topic}-{term.partition} has two leaders at epoch {term.epoch}: "
                        f"{leader} and {partition.leader_id}"
                    )
