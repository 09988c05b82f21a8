"""Quotas of clients as options and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.cli.errors import UsageError
from penstock.cli.output import Table
from penstock.cli.text import format_size, parse_pair, parse_size
from penstock.security.quotas.alterations import DEFAULT, EXACT, Component
from penstock.security.quotas.entities import CLIENT_ID, IP, KINDS_BY_KEY, USER

Entity = dict[str, str | None]  # names by type; None is the default

_BYTE_RATES = ("producer_byte_rate", "consumer_byte_rate")
_NOBODY = "Give --user, --client-id, --ip or one of their defaults."


class SetQuotas(NamedTuple):
    entity: Entity
    values: dict[str, float]


def choose_entity(names: Mapping[str, str | None], defaults: Iterable[str]) -> Entity:
    """From the options: a name of each type or None, and the types whose default is meant."""
    entity: Entity = {each: name for each, name in names.items() if name is not None}
    for each in defaults:
        if each in entity:
            raise UsageError(f"--{each} and --default-{each} are two entities", "Give one of them.")
        entity[each] = None
    if IP in entity and len(entity) > 1:
        raise UsageError("an address has its quota by itself", "Leave --user and --client-id out.")
    return entity


def require_entity(entity: Entity) -> Entity:
    if not entity:
        raise UsageError("whose quotas?", _NOBODY)
    return entity


def parse_quotas(texts: Iterable[str]) -> dict[str, float | None]:
    """`producer_byte_rate=10m`, `request_percentage=50`."""
    values: dict[str, float | None] = {}
    for text in texts:
        key, value = parse_pair(text, "quota")
        _check_key(key)
        values[key] = float(parse_size(value)) if key in _BYTE_RATES else _number(key, value)
    if not values:
        raise UsageError("no quota is given", f"Write KEY=VALUE; keys are {', '.join(KINDS_BY_KEY)}.")
    return values


def parse_keys(keys: Iterable[str]) -> list[str]:
    listed = list(keys)
    for key in listed:
        _check_key(key)
    return listed


def _check_key(key: str) -> None:
    if key not in KINDS_BY_KEY:
        raise UsageError(f"there is no quota {key}", f"There are {', '.join(KINDS_BY_KEY)}.")


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number", f"Write it as {key}=10.") from None


def filter_for(entity: Entity) -> list[Component]:
    return [Component(each, DEFAULT if name is None else EXACT, name) for each, name in entity.items()]


def show_entity(entity: Entity) -> str:
    words = {USER: "user", CLIENT_ID: "client id", IP: "address"}
    parts = [
        f"{words.get(each, each)} {name}" if name is not None else f"any other {words.get(each, each)}"
        for each in (USER, CLIENT_ID, IP)
        for name in [entity.get(each)]
        if each in entity
    ]
    return " with ".join(parts)


def quota_table(quotas: Iterable[SetQuotas]) -> Table:
    table = Table(("USER", "CLIENT ID", "ADDRESS", "QUOTA", ">VALUE"))
    for entity, values in sorted(quotas, key=lambda each: show_entity(each.entity)):
        names = [("<default>" if entity[each] is None else entity[each]) if each in entity else None for each in _ORDER]
        for key, value in values.items():
            table.add(*names, key, _shown(key, value))
    return table


_ORDER = (USER, CLIENT_ID, IP)


def _shown(key: str, value: float) -> str:
    return f"{format_size(value)}/s" if key in _BYTE_RATES else f"{value:g}"


def quota_documents(quotas: Iterable[SetQuotas]) -> list[dict[str, Any]]:
    return [
        change_document(entity, values) for entity, values in sorted(quotas, key=lambda each: show_entity(each.entity))
    ]


def change_document(entity: Entity, values: Mapping[str, float | None]) -> dict[str, Any]:
    """A name of null is the default; a value of null is a quota that is there no more."""
    return {"entity": {each: entity[each] for each in _ORDER if each in entity}, "quotas": dict(values)}
