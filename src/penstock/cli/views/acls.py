"""ACLs, policies and decisions as rows and documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.cli.output import Table
from penstock.security.acls.index import Acl, Asked
from penstock.security.acls.types import camel_case
from penstock.security.policies.policy import ADDRESSES, EFFECT, FROM, OPERATIONS, PRINCIPALS, TAG, UNTIL
from penstock.security.rules import AccessDecision

COLUMNS = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")
_KEYS = tuple(column.lower() for column in COLUMNS)
_POLICY_COLUMNS = ("POLICY", "EFFECT", "TAG", "PRINCIPALS", "OPERATIONS", "FROM", "UNTIL", "ADDRESSES")
_POLICY_KEYS = (EFFECT, TAG, PRINCIPALS, OPERATIONS, FROM, UNTIL, ADDRESSES)


def acl_row(acl: Acl) -> tuple[str, ...]:
    pattern, entry = acl
    return (
        camel_case(pattern.type),
        pattern.name,
        camel_case(pattern.pattern),
        entry.principal,
        entry.host,
        camel_case(entry.operation),
        camel_case(entry.permission),
    )


def acl_table(acls: Iterable[Acl]) -> Table:
    table = Table(COLUMNS)
    for acl in acls:
        table.add(*acl_row(acl))
    return table


def acl_documents(acls: Iterable[Acl]) -> list[dict[str, str]]:
    return [dict(zip(_KEYS, acl_row(acl), strict=True)) for acl in acls]


def describe_rule(acl: Acl) -> str:
    """`Allow User:alice to Read Topic orders*, from anywhere`."""
    kind, name, pattern, principal, host, operation, permission = acl_row(acl)
    star = "*" if pattern == "Prefixed" else ""
    where = "" if host == "*" else f" from {host}"
    return f"{permission} {principal} {operation} on {kind} {name}{star}{where}"


def policy_table(policies: Mapping[str, Mapping[str, str]]) -> Table:
    table = Table(_POLICY_COLUMNS)
    for name, settings in policies.items():
        table.add(name, *(settings.get(key, "") for key in _POLICY_KEYS))
    return table


def policy_documents(policies: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    return [{"policy": name, **settings} for name, settings in policies.items()]


def decision_line(asked: Asked, decision: AccessDecision) -> str:
    verb = "may" if decision.is_allowed else "may not"
    what = f"{camel_case(asked.operation)} on {camel_case(asked.kind)} {asked.name}"
    return f"{asked.principal} {verb} {what} from {asked.host}: {decision.rule}"


def decision_document(
    asked: Asked, decision: AccessDecision, tags: tuple[str, ...], notes: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "principal": asked.principal,
        "host": asked.host,
        "operation": camel_case(asked.operation),
        "resource": camel_case(asked.kind),
        "name": asked.name,
        "allowed": decision.is_allowed,
        "reason": decision.reason.value,
        "rule": decision.rule,
        "tags": list(tags),
        "notes": list(notes),
    }
