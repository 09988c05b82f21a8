"""What the controller says about new ACLs, about filters that delete, and about policies."""

from __future__ import annotations

import pytest

from penstock.cluster.decisions.decision import FullChange, IncrementalChange, RequestedChange
from penstock.cluster.decisions.security.acls import MAX_CHANGES, decide_create_acls, decide_delete_acls
from penstock.cluster.decisions.security.policies import decide_alter_policies
from penstock.cluster.security_image import SecurityImage
from penstock.core.config.resources import ConfigResourceType
from penstock.protocol.errors import ErrorCode
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType

TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
SET, DELETE, APPEND = 0, 1, 2


def acl(
    name: str = "orders",
    principal: str = "User:alice",
    *,
    kind: ResourceType = TOPIC,
    pattern: PatternType = LITERAL,
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> Acl:
    return Acl(ResourcePattern(kind, name, pattern), AclEntry(principal, host, operation, permission))


def stored(*acls: Acl) -> SecurityImage:
    return decide_create_acls(SecurityImage(), acls)[1]


def test_rules_are_stored_once_when_they_are_created_twice() -> None:
    results, security = decide_create_acls(SecurityImage(), [acl(), acl(), acl(principal="User:bob")])
    assert [result.code for result in results] == [ErrorCode.NONE] * 3
    assert [result.is_new for result in results] == [True, False, True]
    assert security.acls == {acl().pattern: (acl().entry, acl(principal="User:bob").entry)}
    results, again = decide_create_acls(security, [acl()])
    assert results[0].code is ErrorCode.NONE
    assert again is security


@pytest.mark.parametrize(
    "wrong",
    [
        acl(kind=ResourceType.ANY),
        acl(kind=ResourceType.UNKNOWN),
        acl(pattern=PatternType.ANY),
        acl(pattern=PatternType.MATCH),
        acl(pattern=PatternType.UNKNOWN),
        acl(operation=Operation.ANY),
        acl(operation=Operation.UNKNOWN),
        acl(permission=Permission.ANY),
        acl(permission=Permission.UNKNOWN),
        acl(""),
        acl("other", kind=ResourceType.CLUSTER),
        acl(principal="alice"),
        acl(principal="User:"),
        acl(host=""),
    ],
)
def test_a_rule_is_refused_alone_when_it_makes_no_sense(wrong: Acl) -> None:
    results, security = decide_create_acls(SecurityImage(), [wrong, acl()])
    assert [result.code for result in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert security.acls == {acl().pattern: (acl().entry,)}


def test_all_rules_are_refused_when_they_are_too_many() -> None:
    results, security = decide_create_acls(SecurityImage(), [acl(str(n)) for n in range(MAX_CHANGES + 1)])
    assert {result.code for result in results} == {ErrorCode.POLICY_VIOLATION}
    assert not security.acls


def test_each_filter_is_told_what_it_deleted_when_two_match_the_same_rule() -> None:
    kept = acl("payments")
    security = stored(acl(), acl(principal="User:bob"), acl("ord", pattern=PREFIXED), kept)
    filters = [AclFilter(TOPIC, "orders", PatternType.MATCH), AclFilter(principal="User:bob")]
    results, security = decide_delete_acls(security, filters)
    assert results[0].deleted == (acl(), acl(principal="User:bob"), acl("ord", pattern=PREFIXED))
    assert results[1].deleted == (acl(principal="User:bob"),)
    assert security.acls == {kept.pattern: (kept.entry,)}


def test_the_others_of_a_resource_stay_when_one_of_three_rules_is_deleted() -> None:
    """CVE-2024-27309."""
    denying = acl(principal="User:eve", permission=Permission.DENY)
    security = stored(acl(), denying, acl(principal="User:bob"))
    _, security = decide_delete_acls(security, [AclFilter(principal="User:alice")])
    assert security.acls == {denying.pattern: (denying.entry, acl(principal="User:bob").entry)}


def test_a_filter_is_refused_alone_when_a_part_of_it_is_unknown() -> None:
    filters = [AclFilter(operation=Operation.UNKNOWN), AclFilter(TOPIC, pattern=PatternType.UNKNOWN), AclFilter()]
    results, security = decide_delete_acls(stored(acl()), filters)
    assert [result.code for result in results] == [ErrorCode.INVALID_REQUEST] * 2 + [ErrorCode.NONE]
    assert [result.message for result in results[:2]] == ["Unknown entryFilter.", "Unknown patternFilter."]
    assert not security.acls


def test_nothing_of_a_filter_is_deleted_when_it_matches_too_much() -> None:
    everything = {ResourcePattern(TOPIC, str(n)): (acl().entry,) for n in range(MAX_CHANGES + 1)}
    security = SecurityImage(acls=everything)
    (result,), after = decide_delete_acls(security, [AclFilter()])
    assert result.code is ErrorCode.POLICY_VIOLATION
    assert after is security


# ------------------------------------------------------------------------------------------------- policies


def change(name: str, **settings: str | None) -> IncrementalChange:
    changes = tuple(
        RequestedChange(key.strip("_"), DELETE if value is None else SET, value) for key, value in settings.items()
    )
    return IncrementalChange(ConfigResourceType.POLICY, name, changes)


def test_a_policy_is_made_changed_and_gone_when_its_settings_are() -> None:
    results, security = decide_alter_policies(SecurityImage(), [change("p", tag="pii", effect="deny")])
    assert results[0].code is ErrorCode.NONE
    assert security.policies == {"p": {"tag": "pii", "effect": "deny"}}
    added = IncrementalChange(ConfigResourceType.POLICY, "p", (RequestedChange("principals", APPEND, "User:a"),))
    _, security = decide_alter_policies(security, [added])
    assert security.policies["p"]["principals"] == "User:a"
    _, security = decide_alter_policies(security, [FullChange(ConfigResourceType.POLICY, "p", ())])
    assert not security.policies


def test_nothing_changes_when_a_change_is_only_tried() -> None:
    before = SecurityImage()
    (result,), after = decide_alter_policies(before, [change("p", tag="pii", effect="deny")], validate_only=True)
    assert result.code is ErrorCode.NONE
    assert after is before


@pytest.mark.parametrize(
    "settings",
    [
        {"tag": "pii"},
        {"effect": "deny"},
        {"tag": "p i", "effect": "deny"},
        {"tag": "pii", "effect": "perhaps"},
        {"tag": "pii", "effect": "deny", "principals": "alice"},
        {"tag": "pii", "effect": "deny", "operations": "ClusterAction"},
        {"tag": "pii", "effect": "deny", "addresses": "10.0.0.0/99"},
        {"tag": "pii", "effect": "deny", "from_": "tomorrow"},
        {"tag": "pii", "effect": "deny", "from_": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"tag": "pii", "effect": "deny", "colour": "red"},
    ],
)
def test_a_policy_is_refused_when_it_makes_no_sense(settings: dict[str, str]) -> None:
    (result,), security = decide_alter_policies(SecurityImage(), [change("p", **settings)])
    assert result.code is ErrorCode.INVALID_CONFIG
    assert result.message
    assert not security.policies


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 101, "a b", "naïve"])
def test_a_policy_is_refused_when_its_name_could_not_be_kept(name: str) -> None:
    (result,), _ = decide_alter_policies(SecurityImage(), [change(name, tag="pii", effect="deny")])
    assert result.code is ErrorCode.INVALID_CONFIG
