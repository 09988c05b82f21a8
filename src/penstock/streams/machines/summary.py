"""What is made of the rows of a window: the rows themselves, for Spark's functions of arrays, or a fold of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from penstock.streams.machines.values import Reader, write


class Summary(Protocol):
    @property
    def column(self) -> str:
        """DDL of the one column that it is."""

    def of(self, values: list[str]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Members:
    column: ClassVar[str] = "members array<string>"

    def of(self, values: list[str]) -> list[str]:
        return values


@dataclass(frozen=True, slots=True)
class Folding:
    """A function of people's, (state or None, row) -> state. State and row are dicts; a dataclass may come back."""

    function: Callable[[Any, Any], Any]
    initial: dict[str, Any] | None
    names: tuple[str, ...]  # of the state's columns: nothing else is kept
    read_row: Reader
    read_state: Reader
    column: ClassVar[str] = "value string"

    def of(self, values: list[str]) -> str | None:
        return self.more(None, values)

    def more(self, state: str | None, values: Iterable[str]) -> str | None:
        """The state after these rows, too. None: the function has given None, which deletes the result."""
        current: Any = self._first() if state is None else self.read_state(state)
        for value in values:
            current = self.function(current, self.read_row(value))
            if dataclasses.is_dataclass(current) and not isinstance(current, type):
                current = {each.name: getattr(current, each.name) for each in dataclasses.fields(current)}
        return None if current is None else write({name: current.get(name) for name in self.names})

    def _first(self) -> dict[str, Any] | None:
        return None if self.initial is None else dict(self.initial)
