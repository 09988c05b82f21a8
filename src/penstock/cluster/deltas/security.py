"""The part of a delta that concerns security: the changed values as a whole, and the added and removed nodes.

A node exists as long as it or a node below it holds a value. The delta names the added and removed nodes because they
follow from the image before, which a later writer of a delta's nodes does not have.

From `SNAPSHOT_LEVEL` on a delta leads to no nodes, and names none. Where the ACLs of a resource change in part, the
delta has the added and removed ACLs alone: a resource may have more ACLs than fit one delta.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from penstock.cluster.deltas.draft import MappingDraft
from penstock.cluster.security_image import SecurityImage, Settings
from penstock.cluster.store import security_nodes
from penstock.security.acls.types import (
    AclEntry,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from penstock.security.acls.types import Operation as Right

Key = TypeVar("Key", str, ResourcePattern)
Value = TypeVar("Value", tuple[AclEntry, ...], Settings)
Rules = Mapping[ResourcePattern, tuple[AclEntry, ...]]

_NO_RULES: Rules = MappingProxyType({})
# Fields of a `SecurityImage` and of a `SecurityDelta`, in their order.
_OF_SETTINGS = ("entity_configs", "tokens", "policies")


class SecurityDelta(NamedTuple):
    # The changed values; an empty value means that none is left.
    acls: Rules
    entity_configs: Mapping[str, Settings]
    tokens: Mapping[str, Settings]
    policies: Mapping[str, Settings]
    # Parents first.
    created: tuple[str, ...]
    # Children first.
    deleted: tuple[str, ...]
    # The resources that keep ACLs and are not in `acls`. Added ACLs stand behind those that stay.
    acls_added: Rules = _NO_RULES
    acls_removed: Rules = _NO_RULES


NO_SECURITY_DELTA = SecurityDelta(_NO_RULES, MappingProxyType({}), MappingProxyType({}), MappingProxyType({}), (), ())


def security_difference(old: SecurityImage, new: SecurityImage, *, has_nodes: bool = True) -> SecurityDelta | None:
    """`has_nodes`: below `SNAPSHOT_LEVEL`."""
    if old is new or old == new:
        return None
    if not has_nodes:
        return _difference_by_rule(old, new)
    before, after = security_nodes.paths_of(old), security_nodes.paths_of(new)
    return SecurityDelta(
        _changed(old.acls, new.acls, ()),
        _changed(old.entity_configs, new.entity_configs, MappingProxyType({})),
        _changed(old.tokens, new.tokens, MappingProxyType({})),
        _changed(old.policies, new.policies, MappingProxyType({})),
        created=tuple(sorted(after - before)),
        deleted=tuple(sorted(before - after, reverse=True)),
    )


def _difference_by_rule(old: SecurityImage, new: SecurityImage) -> SecurityDelta:
    whole: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    added: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    removed: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    for resource, entries in _changed(old.acls, new.acls, ()).items():
        change = changed_rules(old.acls.get(resource, ()), entries) if entries else None
        if change is None or not change.stay:
            whole[resource] = entries
            continue
        if change.come:
            added[resource] = change.come
        if change.go:
            removed[resource] = change.go
    return NO_SECURITY_DELTA._replace(
        acls=whole,
        entity_configs=_changed(old.entity_configs, new.entity_configs, MappingProxyType({})),
        tokens=_changed(old.tokens, new.tokens, MappingProxyType({})),
        policies=_changed(old.policies, new.policies, MappingProxyType({})),
        acls_added=added,
        acls_removed=removed,
    )


class ChangedRules(NamedTuple):
    stay: tuple[AclEntry, ...]
    come: tuple[AclEntry, ...]
    go: tuple[AclEntry, ...]


def changed_rules(before: tuple[AclEntry, ...], after: tuple[AclEntry, ...]) -> ChangedRules | None:
    """None where the remaining ACLs have another order, or where the added ACLs do not stand behind them."""
    there, wanted = set(before), set(after)
    change = ChangedRules(
        tuple(entry for entry in before if entry in wanted),
        tuple(entry for entry in after if entry not in there),
        tuple(entry for entry in before if entry not in wanted),
    )
    return change if change.stay + change.come == after else None


class SecurityReplay:
    """An image during a replay of deltas. Each delta costs as much as it changes, except for the first copy of a
    mapping and of a resource's ACLs.
    """

    def __init__(self, image: SecurityImage) -> None:
        self._image = image
        self._acls = MappingDraft(image.acls)
        # The resources whose ACLs were added and removed one by one since they were last put into `_acls`, in their
        # order.
        self._rules: dict[ResourcePattern, dict[AclEntry, None]] = {}
        self._settings = {name: MappingDraft(getattr(image, name)) for name in _OF_SETTINGS}

    def follow(self, delta: SecurityDelta) -> None:
        for resource in delta.acls:
            self._rules.pop(resource, None)
        self._acls.put(delta.acls)
        for resource in {**delta.acls_removed, **delta.acls_added}:
            self._change_rules(resource, delta.acls_added.get(resource, ()), delta.acls_removed.get(resource, ()))
        for name, draft in self._settings.items():
            draft.put(getattr(delta, name))

    def _change_rules(
        self, resource: ResourcePattern, added: tuple[AclEntry, ...], removed: tuple[AclEntry, ...]
    ) -> None:
        rules = self._rules.get(resource)
        if rules is None:
            present = self._acls.values.get(resource, ())
            if not present:  # in a snapshot: most resources have few ACLs, and appear once
                self._acls.put({resource: added})
                return
            rules = self._rules[resource] = dict.fromkeys(present)
        for entry in removed:
            rules.pop(entry, None)
        rules.update(dict.fromkeys(added))

    @property
    def image(self) -> SecurityImage:
        self._acls.put({resource: tuple(rules) for resource, rules in self._rules.items()})
        self._rules.clear()
        return SecurityImage(self._acls.values, *(draft.values for draft in self._settings.values()))


def security_to_json(delta: SecurityDelta) -> dict[str, Any]:
    by_rule = {"acls_added": delta.acls_added, "acls_removed": delta.acls_removed}
    return {
        "acls": acls_to_json(delta.acls),
        "entity_configs": settings_to_json(delta.entity_configs),
        "tokens": settings_to_json(delta.tokens),
        "policies": settings_to_json(delta.policies),
        "created": delta.created,
        "deleted": delta.deleted,
        **{name: acls_to_json(rules) for name, rules in by_rule.items() if rules},
    }


def security_from_json(value: dict[str, Any]) -> SecurityDelta:
    return SecurityDelta(
        acls_from_json(value["acls"]),
        settings_from_json(value["entity_configs"]),
        settings_from_json(value["tokens"]),
        settings_from_json(value["policies"]),
        tuple(value["created"]),
        tuple(value["deleted"]),
        acls_from_json(value.get("acls_added", [])),
        acls_from_json(value.get("acls_removed", [])),
    )


def acls_to_json(acls: Mapping[ResourcePattern, tuple[AclEntry, ...]]) -> list[Any]:
    return [(*resource, list(entries)) for resource, entries in acls.items()]


def acls_from_json(value: list[Any]) -> dict[ResourcePattern, tuple[AclEntry, ...]]:
    return {
        ResourcePattern(ResourceType(kind), str(name), PatternType(pattern)): tuple(
            AclEntry(str(principal), str(host), Right(operation), Permission(permission))
            for principal, host, operation, permission in entries
        )
        for kind, name, pattern, entries in value
    }


def settings_to_json(values: Mapping[str, Settings]) -> dict[str, dict[str, str]]:
    return {key: dict(settings) for key, settings in values.items()}


def settings_from_json(value: dict[str, dict[str, str]]) -> dict[str, Settings]:
    return {str(key): MappingProxyType(dict(settings)) for key, settings in value.items()}


def _changed(old: Mapping[Key, Value], new: Mapping[Key, Value], gone: Value) -> Mapping[Key, Value]:
    if old is new:
        return MappingProxyType({})
    changed: dict[Key, Value] = {key: gone for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        # Identity first: an equality check of two mappings takes 0.3 us, and nearly all values are the same objects.
        if before is not value and before != value:
            changed[key] = value
    return changed
