"""The result of a decision: records to write, and the answer once they were replayed. Also drafts of several
decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.registry.errors import StoreError
from penstock.registry.log import LogRecord
from penstock.registry.model import Content
from penstock.registry.state import State

Answer = TypeVar("Answer")

# Ids and versions are signed numbers of 32 bits to every client. A record with a higher number would be unreadable.
HIGHEST_NUMBER = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer]):
    """Without records there is nothing to write, and the answer holds now."""

    records: tuple[LogRecord, ...]
    # Called after the replay of the records. Raises an error if the log differs from the decision.
    answer: Callable[[], Answer]


class StaleDecisionError(Exception):
    """The state behind the decision has changed: it is prepared again."""


class DecisionDraft:
    """Decisions that are written together, and ids that this leader has given.

    A decided id is not given again, even if its write failed: the records may arrive later.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._given: dict[str, int] = {}
        self._subjects: set[str] = set()
        self._ids: dict[tuple[str, bytes], int] = {}

    def begin(self) -> None:
        """The next decisions are written in one piece, after all earlier decisions."""
        self._subjects.clear()
        self._ids.clear()

    def claim(self, subject: str) -> bool:
        """Whether no other decision of the piece is about the subject."""
        if subject in self._subjects:
            return False
        self._subjects.add(subject)
        return True

    def id_of(self, context: str, content: Content) -> int:
        """The id that the content has or gets."""
        schemas = self._state.contexts.get(context)
        known = None if schemas is None else schemas.id_of(content)
        if known is not None:
            return known
        key = (context, content.key)
        drafted = self._ids.get(key)
        if drafted is None:
            drafted = max(self._state.highest_id(context), self._given.get(context, 0)) + 1
            if drafted > HIGHEST_NUMBER:
                raise StoreError(f"The ids of the context '{context}' have run out")
            self._ids[key] = self._given[context] = drafted
        return drafted

    def use_id(self, context: str, schema_id: int) -> None:
        """A caller chose the id."""
        self._given[context] = max(self._given.get(context, 0), schema_id)
