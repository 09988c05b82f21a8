"""Partition states that a decision changes one after another, and the image with all of them.

A topic whose states all stay remains the same object, and the topics are copied once, however many states change.
"""

from __future__ import annotations

from penstock.cluster.image import MetadataImage, PartitionState, TopicImage


class ChangedStates:
    def __init__(self, image: MetadataImage) -> None:
        self.before = image
        self._states: dict[str, dict[int, PartitionState]] = {}

    def get(self, topic: str, index: int) -> PartitionState | None:
        """The present state."""
        state = self._states.get(topic, {}).get(index)
        return self.before.partition(topic, index) if state is None else state

    def put(self, topic: str, state: PartitionState) -> None:
        if state is not self.get(topic, state.partition):
            self._states.setdefault(topic, {})[state.partition] = state

    def image(self) -> MetadataImage:
        """The same object as `before` where nothing changed."""
        return self.before.with_topics({name: self._topic(name) for name in self._states})

    def _topic(self, name: str) -> TopicImage:
        topic, states = self.before.topics[name], self._states[name]
        return topic._replace(partitions=tuple(states.get(state.partition, state) for state in topic.partitions))
