"""The nodes of the security data and the JSON in them, laid out as Kafka did in ZooKeeper.

Kafka's brokers announce new ACLs to each other by nodes in `/kafka-acl-changes`. Here the log of the metadata does
that, so these nodes are missing. Policies are Penstock's alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from penstock.cluster.security_image import CLIENTS, IPS, TAGS, USERS, SecurityImage, Settings, quote_name
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.cluster.store.znodes import decode_settings, encode_settings
from penstock.security.acls.types import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    camel_case,
)

CONFIGS = "/config"
LITERAL_ACLS = "/kafka-acl"
PREFIXED_ACLS = "/kafka-acl-extended/prefixed"
TOKENS = "/delegation_token/tokens"
POLICIES = "/penstock/policies"

ROOTS = (*(f"{CONFIGS}/{kind}" for kind in (USERS, CLIENTS, IPS, TAGS)), LITERAL_ACLS, PREFIXED_ACLS, TOKENS, POLICIES)
# Every cluster has these nodes for ever.
_FOREVER = frozenset(("", CONFIGS, "/penstock"))

_TYPES = {camel_case(each): each for each in ResourceType}
_OPERATIONS = {camel_case(each): each for each in Operation}
_PERMISSIONS = {camel_case(each): each for each in Permission}
_EMPTY = encode_settings({})
_ACL_ROOTS = (LITERAL_ACLS, PREFIXED_ACLS)
_DEPTH_OF_USERS_CLIENT = 5  # /config/users/alice/clients/app


def acl_path(resource: ResourcePattern) -> str:
    root = LITERAL_ACLS if resource.pattern is PatternType.LITERAL else PREFIXED_ACLS
    name = resource.name if resource.name == "*" else quote_name(resource.name)
    return f"{root}/{camel_case(resource.type)}/{name}"


def entity_path(key: str) -> str:
    return f"{CONFIGS}/{key}"


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{quote_name(token_id)}"


def policy_path(name: str) -> str:
    return f"{POLICIES}/{quote_name(name)}"


# Fields of a `SecurityImage`, and the paths of their values' nodes.
_PATHS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("acls", acl_path),
    ("entity_configs", entity_path),
    ("tokens", token_path),
    ("policies", policy_path),
)


def nodes_of(image: SecurityImage) -> dict[str, bytes]:
    """Every node with its data, parents first."""
    values = {
        **{acl_path(resource): encode_acls(entries) for resource, entries in image.acls.items()},
        **{entity_path(key): encode_settings(settings) for key, settings in image.entity_configs.items()},
        **{token_path(token_id): encode_settings(settings) for token_id, settings in image.tokens.items()},
        **{policy_path(name): encode_settings(settings) for name, settings in image.policies.items()},
    }
    return {path: values.get(path, _EMPTY) for path in sorted(with_parents(values))}


def node_data(path: str, nodes: Mapping[str, bytes]) -> bytes:
    """The data of a node that may exist for its children alone."""
    return nodes.get(path, _EMPTY)


def paths_of(image: SecurityImage) -> set[str]:
    """Every node, also those that exist for their children alone."""
    return with_parents(path_of(key) for field, path_of in _PATHS for key in getattr(image, field))


def added_paths(old: SecurityImage, new: SecurityImage) -> list[str]:
    """The nodes of values that the old image does not have at all. Costs next to nothing for values in both images."""
    kinds = ((getattr(old, field), getattr(new, field), path_of) for field, path_of in _PATHS)
    return [path_of(key) for before, after, path_of in kinds if before is not after for key in after.keys() - before]


def with_parents(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        while path not in found and path not in _FOREVER:
            found.add(path)
            path = path.rpartition("/")[0]
    return found


def may_have_children(path: str) -> bool:
    """Whether a node below the roots is not the last on its path: saves a request for each value."""
    if path in ROOTS:
        return True
    if path.startswith(f"{CONFIGS}/users/"):
        return path.count("/") < _DEPTH_OF_USERS_CLIENT
    return any(path.startswith(f"{root}/") and path.count("/") == root.count("/") + 1 for root in _ACL_ROOTS)


def encode_acls(entries: Iterable[AclEntry]) -> bytes:
    rows = [
        {
            "principal": entry.principal,
            "permissionType": camel_case(entry.permission),
            "operation": camel_case(entry.operation),
            "host": entry.host,
        }
        for entry in entries
    ]
    return json.dumps({"version": 1, "acls": rows}, separators=(",", ":")).encode()


def decode_acls(path: str, data: bytes) -> tuple[AclEntry, ...]:
    if not data:
        return ()
    try:
        value: dict[str, Any] = json.loads(data)
        return tuple(
            AclEntry(
                str(row["principal"]),
                str(row["host"]),
                _OPERATIONS[row["operation"]],
                _PERMISSIONS[row["permissionType"]],
            )
            for row in value.get("acls", ())
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(StoreErrorKind.CORRUPT, path, f"the node cannot be understood: {error!r}") from error


def decode_nodes(nodes: Mapping[str, bytes]) -> SecurityImage:
    """The image of all nodes below the roots. Raises StoreError(CORRUPT) for an unreadable node."""
    acls: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    entities: dict[str, Settings] = {}
    tokens: dict[str, Settings] = {}
    policies: dict[str, Settings] = {}
    for path, data in sorted(nodes.items()):
        resource = _resource_of(path)
        if resource is not None:
            acls[resource] = decode_acls(path, data)
        elif path.startswith(f"{CONFIGS}/"):
            key = path.removeprefix(f"{CONFIGS}/")
            if key.count("/") % 2:  # the others hold entities and are none
                entities[key] = _settings(path, data)
        elif path.startswith(f"{TOKENS}/"):
            tokens[_last_name(path)] = _settings(path, data)
        elif path.startswith(f"{POLICIES}/"):
            policies[_last_name(path)] = _settings(path, data)
    return SecurityImage(
        {resource: entries for resource, entries in acls.items() if entries},
        *({key: value for key, value in each.items() if value} for each in (entities, tokens, policies)),
    )


def _resource_of(path: str) -> ResourcePattern | None:
    for root, pattern in zip(_ACL_ROOTS, (PatternType.LITERAL, PatternType.PREFIXED), strict=True):
        if path.startswith(f"{root}/"):
            kind, slash, name = path.removeprefix(f"{root}/").partition("/")
            if slash and kind in _TYPES:
                return ResourcePattern(_TYPES[kind], unquote(name), pattern)
    return None


def _settings(path: str, data: bytes) -> Settings:
    return MappingProxyType(decode_settings(path, data))


def _last_name(path: str) -> str:
    return unquote(path.rpartition("/")[2])
