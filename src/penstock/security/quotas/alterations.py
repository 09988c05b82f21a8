"""AlterClientQuotas and DescribeClientQuotas, as far as they are about values: checks of values, matches of filters.

Codes and texts are Kafka's (`ClientQuotaControlManager`, `ClientQuotasImage`). There are two differences. An address
must be an address, not a host name: the controller would have to look the name up each time that it reads the quotas. A
value must be a number: Kafka takes NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.protocol.errors import ApiError, ErrorCode
from penstock.security.addresses import parse_address
from penstock.security.quotas.entities import (
    ADDRESS_KINDS,
    CLIENT_ID,
    CLIENT_KINDS,
    ENTITY_TYPES,
    IP,
    KINDS_BY_KEY,
    USER,
    USER_KINDS,
    Names,
    Quota,
    QuotaKind,
)

_LARGEST = {"LONG": 2.0**63, "INT": 2.0**31 - 1}
# Kafka compares with this precision to see whether a value is whole.
_FRACTION = 1e-6
_SHOWN_CHARACTERS = 50

# The meaning of a filter's component: this name, the default, or any name.
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


class QuotaChange(NamedTuple):
    key: str
    value: float | None  # None removes


class EntityChange(NamedTuple):
    names: Names
    changes: tuple[QuotaChange, ...]


class Component(NamedTuple):
    entity_type: str
    match_type: int
    match: str | None


def show_entity(names: Names) -> str:
    """As Java prints a ClientQuotaEntity. A name that is too long for a message is cut."""
    known = [each for each in ENTITY_TYPES if each in names]
    others = [each for each in names if each not in ENTITY_TYPES]
    shown = [f"{_shorten(each)}={_shorten(names[each])}" for each in known + others]
    return f"ClientQuotaEntity(entries={{{', '.join(shown)}}})"


def _shorten(text: str | None) -> str:
    return "null" if text is None else text[:_SHOWN_CHARACTERS]


# ------------------------------------------------------------------------------------------------- altering


def alter_settings(before: Mapping[str, str], change: EntityChange, kinds: tuple[QuotaKind, ...]) -> dict[str, str]:
    """The settings of an entity after the change; settings that are no quotas stay. `kinds` are those of
    `check_entity`. Raises ApiError(INVALID_REQUEST).
    """
    if len({each.key for each in change.changes}) != len(change.changes):
        raise _invalid(f"Ignoring duplicate entity {show_entity(change.names)}")
    after = dict(before)
    for key, value in change.changes:
        if value is not None:
            kind = _check_value(kinds, key, value)
            after[key] = kind.encode(value)
        elif (
            key in KINDS_BY_KEY
        ):  # a user's credentials are stored beside the quotas, and this request must not remove them
            after.pop(key, None)
    return after


def check_entity(names: Names) -> tuple[QuotaKind, ...]:
    """The kinds of quotas that the entity can have. Raises ApiError(INVALID_REQUEST)."""
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for entity_type, name in names.items():
        if entity_type not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {_shorten(entity_type)}")
        if name == "":
            raise _invalid(f"Empty {entity_type} not supported")
    if IP not in names:
        return CLIENT_KINDS if CLIENT_ID in names else USER_KINDS
    if USER in names or CLIENT_ID in names:
        # The missing space is Kafka's.
        text = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        raise _invalid(text)
    address = names[IP]
    if address is not None and parse_address(address) is None:
        raise _invalid(f"{_shorten(address)} is not a valid IP or resolvable host.")
    return ADDRESS_KINDS


def _check_value(kinds: tuple[QuotaKind, ...], key: str, value: float) -> QuotaKind:
    kind = KINDS_BY_KEY.get(key)
    if kind is None or kind not in kinds:
        raise _invalid(f"Invalid configuration key {_shorten(key)}")
    if math.isnan(value) or value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if value > _LARGEST.get(kind.number, math.inf) or math.isinf(value):
        article = "an" if kind.number == "INT" else "a"
        raise _invalid(f"Proposed value for {key} is too large for {article} {kind.number}.")
    if kind.number != "DOUBLE" and value % 1 > _FRACTION:
        raise _invalid(f"{key} cannot be a fractional value.")
    return kind


# ------------------------------------------------------------------------------------------------- describing


def check_filter(components: Sequence[Component]) -> None:
    """Raises ApiError."""
    entity_types: set[str] = set()
    for component in components:
        entity_type = component.entity_type
        if not entity_type:
            raise _invalid("Invalid empty entity type.")
        if entity_type in entity_types:
            raise _invalid(f"Entity type {entity_type} cannot appear more than once in the filter.")
        if entity_type not in ENTITY_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {_shorten(entity_type)}")
        entity_types.add(entity_type)
        _check_match(component)
    if IP in entity_types and len(entity_types) > 1:
        text = (
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
        raise _invalid(text)


def _check_match(component: Component) -> None:
    match_type = component.match_type
    if match_type == EXACT:
        if component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif match_type in (DEFAULT, SPECIFIED):
        if component.match is not None:
            name = "MATCH_TYPE_DEFAULT" if match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise _invalid(f"Request specified {name}, but also specified a match string.")
    else:
        raise _invalid(f"Unknown match type {match_type}")


def matching(quotas: Iterable[Quota], components: Sequence[Component], *, strict: bool) -> Iterable[Quota]:
    """The quotas whose entities have every type that the filter names, and no other type where it is strict."""
    if strict and not components:
        return
    for quota in quotas:
        names = quota.names
        if strict and len(names) != len(components):
            continue
        if all(_matches(names, component) for component in components):
            yield quota


def _matches(names: Names, component: Component) -> bool:
    if component.entity_type not in names:
        return False
    return component.match_type == SPECIFIED or names[component.entity_type] == component.match


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
