"""The security data in the cluster's metadata: ACLs, settings of users, clients and addresses, tokens, policies.

Part of the metadata image, and immutable like it. Keys of `entity_configs` are paths below Kafka's `/config` node, with
names quoted: `users/alice`, `users/alice/clients/app`, `clients/app`, `ips/10.0.0.1`. SCRAM credentials and quotas of a
user are in the same settings, as in Kafka. `tags/orders`, which is Penstock's own, has the tags that a topic of this
name bore when it was deleted. No value is empty: an empty value has no entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from penstock.security.acls.types import AclEntry, ResourcePattern
from penstock.security.quotas.entities import DEFAULT_NAME

Settings = Mapping[str, str]
Key = TypeVar("Key")
Value = TypeVar("Value", tuple[AclEntry, ...], Settings)

USERS, CLIENTS, IPS, TAGS = "users", "clients", "ips", "tags"

_NO_ACLS: Mapping[ResourcePattern, tuple[AclEntry, ...]] = MappingProxyType({})
_NO_SETTINGS: Mapping[str, Settings] = MappingProxyType({})


class SecurityImage(NamedTuple):
    acls: Mapping[ResourcePattern, tuple[AclEntry, ...]] = _NO_ACLS
    entity_configs: Mapping[str, Settings] = _NO_SETTINGS
    # Delegation tokens by their ids.
    tokens: Mapping[str, Settings] = _NO_SETTINGS
    # Policies about tags by their names.
    policies: Mapping[str, Settings] = _NO_SETTINGS


NO_SECURITY = SecurityImage()


def with_value(present: Mapping[Key, Value], key: Key, value: Value) -> Mapping[Key, Value]:
    """The mapping with the value in the key's place. An empty value removes the key."""
    if value:
        return {**present, key: value}
    return {each: kept for each, kept in present.items() if each != key}


# ------------------------------------------------------------------------------------------------ keys of entities


def quote_name(name: str) -> str:
    """As Kafka's `Sanitizer` does. A name of dots alone, which no store takes as a node's name, is quoted as well."""
    quoted = quote(name, safe="").replace("~", "%7E")
    return quoted.replace(".", "%2E") if not quoted.strip(".") else quoted


def user_key(user: str | None) -> str:
    """None is the entry for every user without an entry."""
    return f"{USERS}/{_entity(user)}"


def client_key(client_id: str | None, *, of_user: str | None = "") -> str:
    """`of_user` is a user's name, None for the default user, or empty for any user."""
    below = f"{user_key(of_user)}/" if of_user != "" else ""
    return f"{below}{CLIENTS}/{_entity(client_id)}"


def ip_key(address: str | None) -> str:
    return f"{IPS}/{_entity(address)}"


def tags_key(topic: str) -> str:
    return f"{TAGS}/{quote_name(topic)}"


def _entity(name: str | None) -> str:
    return DEFAULT_NAME if name is None else quote_name(name)
