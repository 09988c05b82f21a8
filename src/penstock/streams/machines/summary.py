"""Summarises the rows of a window: as the rows themselves, for Spark's functions of arrays, or as a fold of them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from penstock.streams.machines.values import ValueReader, write
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.functions import function_name


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
    """An author's function, (state or None, row) -> state. State and row are dicts; a dataclass may come back."""

    function: Callable[[Any, Any], Any]
    initial: dict[str, Any] | None
    names: tuple[str, ...]  # of the state's columns: nothing else is kept
    read_row: ValueReader
    read_state: ValueReader
    node: str = "fold"
    column: ClassVar[str] = "value string"

    def of(self, values: list[str]) -> str | None:
        return self.more(None, values)

    def more(self, state: str | None, values: Iterable[str]) -> str | None:
        """The state after these rows, too. None: the function has given None, which deletes the result."""
        current: Any = self._first() if state is None else self.read_state(state)
        row: Any = None
        try:
            for value in values:
                row = self.read_row(value)
                current = self._state(self.function(current, row))
            return None if current is None else write({name: current.get(name) for name in self.names})
        except Exception as error:  # whatever the function does: its author needs to know where
            raise self._failure(row, error) from error

    def _state(self, made: Any) -> Any:
        if dataclasses.is_dataclass(made) and not isinstance(made, type):
            return {each.name: getattr(made, each.name) for each in dataclasses.fields(made)}
        if made is not None and not isinstance(made, Mapping):
            raise TypeError(f"the function gave {made!r}, which is no dict, dataclass or None")
        return made

    def _failure(self, row: Any, error: Exception) -> StreamsError:
        place = f"key {row.get('_key')!r}, time {row.get('_timestamp')}" if isinstance(row, dict) else "no row"
        return StreamsError(
            f"{self.node}: {function_name(self.function)} failed for a row ({place}): {type(error).__name__}: {error}",
            f"A state is a dict with the columns {', '.join(self.names)}, or None.",
        )

    def _first(self) -> dict[str, Any] | None:
        # Whole: a list within it that the function changes would be changed for all keys.
        return copy.deepcopy(self.initial)
