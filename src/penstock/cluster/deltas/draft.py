"""A mapping during its change for the next image: it is copied at its first change, however many changes follow."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value", bound=Sized)


class MappingDraft(Generic[Key, Value]):
    """An empty value removes its key."""

    def __init__(self, values: Mapping[Key, Value]) -> None:
        self._before = values
        self._own: dict[Key, Value] | None = None

    @property
    def values(self) -> Mapping[Key, Value]:
        """The mapping under the draft, where nothing has changed."""
        return self._before if self._own is None else self._own

    def put(self, changed: Mapping[Key, Value]) -> None:
        own = self._copied() if changed else {}
        for key, value in changed.items():
            if value:
                own[key] = value
            else:
                own.pop(key, None)

    def remove(self, key: Key) -> None:
        self._copied().pop(key, None)

    def _copied(self) -> dict[Key, Value]:
        if self._own is None:
            self._own = dict(self._before)
        return self._own
