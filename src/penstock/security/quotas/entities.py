"""Entities with quotas: a user, a client id, both, or an address; by name, or the default for all without their own.

An entity's key is the path that it has below Kafka's `/config`: `users/alice`, `users/alice/clients/app`,
`clients/<default>`, `ips/10.0.0.1`. Names in it are quoted, so that none can be taken for a slash or for the default.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

USER, CLIENT_ID, IP = "user", "client-id", "ip"
DEFAULT_NAME = "<default>"

# The names of an entity by type; None is the default. Java prints the types in this order.
Names = Mapping[str, str | None]
ENTITY_TYPES = (CLIENT_ID, USER, IP)

_FOLDERS = {"users": USER, "clients": CLIENT_ID, "ips": IP}
_USERS, _CLIENTS, _IPS = _FOLDERS


class QuotaKind(enum.Enum):
    """The keys of quotas, with the type that Kafka gives their values."""

    PRODUCE = "producer_byte_rate", "LONG"
    FETCH = "consumer_byte_rate", "LONG"
    REQUEST = "request_percentage", "DOUBLE"
    MUTATION = "controller_mutation_rate", "DOUBLE"
    CONNECTION = "connection_creation_rate", "INT"
    PRODUCER_IDS = "producer_ids_rate", "DOUBLE"  # KIP-936

    def __init__(self, key: str, number: str) -> None:
        self.key = key
        self.number = number

    def encode(self, value: float) -> str:
        return str(float(value)) if self.number == "DOUBLE" else str(int(value))


KINDS_BY_KEY: Mapping[str, QuotaKind] = {kind.key: kind for kind in QuotaKind}
CLIENT_KINDS = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST, QuotaKind.MUTATION)
# Producer ids are counted for users alone, as in KIP-936: clients choose their client ids.
USER_KINDS = (*CLIENT_KINDS, QuotaKind.PRODUCER_IDS)
ADDRESS_KINDS = (QuotaKind.CONNECTION,)


class Quota(NamedTuple):
    names: Names
    values: Mapping[str, float]  # by key


def parse_entity_path(path: str) -> dict[str, str | None] | None:
    """None if no entity has this path."""
    parts = path.split("/")
    folders, names = parts[::2], parts[1::2]
    if folders not in ([_USERS], [_CLIENTS], [_IPS], [_USERS, _CLIENTS]) or len(names) != len(folders):
        return None
    found = {_FOLDERS[folder]: _unquote(name) for folder, name in zip(folders, names, strict=True)}
    return {each: found[each] for each in ENTITY_TYPES if each in found}


def _unquote(quoted: str) -> str | None:
    return None if quoted == DEFAULT_NAME else unquote(quoted)


def stored_quotas(entity_configs: Mapping[str, Mapping[str, str]]) -> Iterable[Quota]:
    """Entities with quotas, in the order of their paths. A user's credentials, stored beside them, are left out."""
    for path in sorted(entity_configs):
        values = quota_values(entity_configs[path])
        names = parse_entity_path(path) if values else None
        if names is not None:
            yield Quota(names, values)


def quota_values(settings: Mapping[str, str]) -> dict[str, float]:
    values = {}
    for key in KINDS_BY_KEY:
        if key in settings:
            try:
                values[key] = float(settings[key])
            except ValueError:  # another program wrote it: no quota is better than a broker that does not start
                continue
    return values
