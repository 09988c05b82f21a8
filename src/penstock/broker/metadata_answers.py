"""Metadata answers about single topics, ready but for the correlation id.

An answer holds for one image: a new image empties the store, also one that changes nothing but the brokers or the
controller, which every answer names. Within an image an answer holds while the replicas that it names and that are here
are online, which is asked each time. Keys are names of topics that exist, versions that are served and listeners of
this broker, never what a client makes up, and there is room for a few hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.cluster.image import MetadataImage
from penstock.log.state.availability import Availability

# Of at most a hundred partitions each: some 3 KB, so 2 MB together. A client that asks for more topics by turns than
# these empties the store each time it is full, and is answered as if there were none.
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
        """What is kept may name a leader that is not one any more."""
        self._answers.clear()

    def keep(self, key: Key, answer: ReadyAnswer) -> None:
        """For the image of the last `find`."""
        if len(self._answers) >= MAX_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer

    def __len__(self) -> int:
        return len(self._answers)
