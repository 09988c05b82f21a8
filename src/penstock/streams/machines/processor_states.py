"""A processor's states, as its code sees them: rows are dicts.

Times are in UTC. Spark gives those of a state back in the worker's own time zone and without saying so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.streams.machines.machine import ListState, MapState, StateKind, StateSpec, ValueState
from penstock.streams.topology.errors import StreamsError


@dataclass(frozen=True, slots=True)
class StateNames:
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()  # of a map


class StateSlot:
    """An attribute of a Processor's class; of its objects, the state of the key at hand."""

    def __init__(self, spec: StateSpec) -> None:
        self.spec, self.name = spec, ""

    def __set_name__(self, owner: type, name: str) -> None:
        if name.startswith("_"):
            raise StreamsError(f"{owner.__name__}.{name}: the name of a state begins with a letter")
        self.name = name

    def __get__(self, processor: Any, owner: type) -> Any:
        if processor is None:
            return self
        states = vars(processor).get("_states")
        if states is None:
            raise StreamsError(
                f"{owner.__name__}.{self.name} was used outside of process() and on_timer()",
                "A state belongs to the key at hand, and there is none elsewhere.",
            )
        names = vars(processor)["_state_names"][self.name]
        match self.spec.kind:
            case StateKind.VALUE:
                return ValueOfKey(states.value(self.name), names)
            case StateKind.LIST:
                return ListOfKey(states.list(self.name), names)
        return MapOfKey(states.map(self.name), names)


@dataclass(frozen=True, slots=True)
class ValueOfKey:
    _state: ValueState
    _names: StateNames

    def get(self) -> dict[str, Any] | None:
        held = self._state.get()
        return None if held is None else _row(held, self._names)

    def put(self, value: Any = None, /, **columns: Any) -> None:
        self._state.put(_values(value, columns, self._names))

    def clear(self) -> None:
        self._state.clear()


@dataclass(frozen=True, slots=True)
class ListOfKey:
    _state: ListState
    _names: StateNames

    def get(self) -> list[dict[str, Any]]:
        return [_row(each, self._names) for each in self._state.get()]

    def append(self, value: Any = None, /, **columns: Any) -> None:
        self._state.append(_values(value, columns, self._names))

    def put(self, values: list[Any]) -> None:
        if values:
            self._state.put([_values(each, {}, self._names) for each in values])
        else:
            self._state.clear()

    def clear(self) -> None:
        self._state.clear()


@dataclass(frozen=True, slots=True)
class MapOfKey:
    _state: MapState
    _names: StateNames

    def get(self, key: Any) -> dict[str, Any] | None:
        held = self._state.get(self._key(key))
        return None if held is None else _row(held, self._names)

    def put(self, key: Any, value: Any = None, /, **columns: Any) -> None:
        self._state.put(self._key(key), _values(value, columns, self._names))

    def remove(self, key: Any) -> None:
        self._state.remove(self._key(key))

    def items(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        for key, held in self._state.items():
            plain = tuple(_given(each) for each in key)
            yield (plain[0] if len(plain) == 1 else plain), _row(held, self._names)

    def clear(self) -> None:
        self._state.clear()

    def _key(self, key: Any) -> tuple[Any, ...]:
        values = tuple(key) if isinstance(key, tuple | list) else (key,)
        if len(values) != len(self._names.key):
            raise StreamsError(f"the state's key has the columns {', '.join(self._names.key)}, not {key!r}")
        return tuple(_kept(each) for each in values)


def _row(held: tuple[Any, ...], names: StateNames) -> dict[str, Any]:
    return {name: _given(value) for name, value in zip(names.columns, held, strict=True)}


def _values(value: Any, columns: Mapping[str, Any], names: StateNames) -> tuple[Any, ...]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    given = {**(value or {}), **columns}
    unknown = [name for name in given if name not in names.columns]
    if unknown:
        raise StreamsError(f"the state has no column {unknown[0]!r}", f"Its columns are {', '.join(names.columns)}.")
    return tuple(_kept(given.get(name)) for name in names.columns)


def _kept(value: Any) -> Any:
    """In the form of states: times have their zone."""
    match value:
        case datetime() if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        case dict():
            return {key: _kept(each) for key, each in value.items()}
        case list() | tuple():
            return [_kept(each) for each in value]
    return value


def _given(value: Any) -> Any:
    """As code expects it: rows within rows are dicts, times are in UTC."""
    match value:
        case datetime():
            return value.astimezone(UTC)
        case dict():
            return {key: _given(each) for key, each in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return {key: _given(each) for key, each in value.asDict().items()}
        case list() | tuple():
            return [_given(each) for each in value]
    return value
