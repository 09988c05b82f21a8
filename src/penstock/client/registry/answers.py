"""Answers that are kept, and refusals that are kept for a moment.

Threads that need the same answer at the same time ask for it once: the others wait for the first, and share what it
hears, also that the registry is away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from penstock.client.registry.errors import RegistryAnswerError
from penstock.client.registry.model import NewSchema, RegisteredSchema
from penstock.core.bounded_cache import BoundedCache

Value = TypeVar("Value")

Refusals = BoundedCache[Hashable, RegistryAnswerError]

# An entry without its text.
_ENTRY_BYTES = 500
# What a login, a limit or a registry in trouble refuses is asked again at once.
_PASSING = (401, 403, 408, 429)


class KeptAnswers(Generic[Value]):
    """Several may share the refusals: their keys differ."""

    def __init__(self, kept: BoundedCache[Hashable, Value], refusals: Refusals) -> None:
        self._kept = kept
        self._refusals = refusals
        # Questions under way: never more than there are threads.
        self._asked: dict[Hashable, Future[Value]] = {}
        self._lock = threading.Lock()

    def ask(self, key: Hashable, ask: Callable[[], Value]) -> Value:
        found = self.peek(key)
        if found is not None:
            return found
        with self._lock:
            under_way = self._asked.get(key)
            if under_way is None:
                mine = self._asked[key] = Future()
        if under_way is not None:
            return under_way.result()
        try:
            answer = self._ask(key, ask)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(answer)
            return answer
        finally:
            with self._lock:
                del self._asked[key]

    def _ask(self, key: Hashable, ask: Callable[[], Value]) -> Value:
        try:
            answer = ask()
        except RegistryAnswerError as error:
            if error.status < 500 and error.status not in _PASSING:
                self._refusals.put(key, error, _ENTRY_BYTES + len(error.message) + _size(key))
            raise
        self._kept.put(key, answer, _ENTRY_BYTES + _size((answer, key)))
        return answer

    def peek(self, key: Hashable) -> Value | None:
        """Raises the refusal that is kept."""
        found = self._kept.get(key)
        if found is not None:
            return found
        refusal = self._refusals.get(key)
        if refusal is not None:
            # Another object with the same words: the one that is kept would gather a traceback with every use.
            raise RegistryAnswerError(refusal.status, refusal.code, refusal.message)
        return None

    def forget(self) -> None:
        self._kept.clear()


def _size(thing: object) -> int:
    if isinstance(thing, tuple):
        return sum(map(_size, thing))
    if isinstance(thing, str):
        return len(thing)
    return len(thing.text) if isinstance(thing, NewSchema | RegisteredSchema) else 0
