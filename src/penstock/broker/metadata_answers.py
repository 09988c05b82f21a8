"""Metadata answers about single topics, complete but for the correlation id.

An answer holds for one image: a new image empties the store, also an image that changes only the brokers or the
controller, which every answer names. Within an image an answer holds while the replicas on this broker that it names
are online, which each request checks. Keys are names of existing topics, served versions and listeners of this broker,
never text that a client makes up, and there is room for a few hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.cluster.image import MetadataImage
from penstock.log.state.availability import Availability

# The number of answers, of at most a hundred partitions each: some 3 KB, so 2 MB together. A client that asks for more
# topics than these in turn empties the store each time the store is full, and gets its answers the usual way.
MAX_ANSWERS = 500

Key = tuple[str, int, str]  # topic, version, listener


class ReadyAnswer(NamedTuple):
    reply: bytes
    availabilities: Sequence[Availability]


class MetadataAnswers:
    __slots__ = ("_answers", "_image")

    def __init__(self) -> None:
        self._image: MetadataImage | None = None
        self._answers: dict[Key, ReadyAnswer] = {}

    def find(self, image: MetadataImage, key: Key) -> bytes | None:
        """The reply to `key` while `image` is in force."""
        if image is not self._image:
            self._image = image
            self._answers.clear()
            return None
        ready = self._answers.get(key)
        if ready is None:
            return None
        reply, availabilities = ready
        for availability in availabilities:
            if availability.offline_reason is not None:
                return None
        return reply

    def forget(self) -> None:
        """Drops all answers, which may name a former leader."""
        self._answers.clear()

    def keep(self, key: Key, answer: ReadyAnswer) -> None:
        """Keeps an answer for the image of the last `find`."""
        if len(self._answers) >= MAX_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer

    def __len__(self) -> int:
        return len(self._answers)
