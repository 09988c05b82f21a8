"""Decisions of the index against a reference that looks at every rule, written from Kafka's words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl, AclIndex, Asked
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from penstock.security.rules import Reason, Rules

# Few and alike, so that rules meet: prefixes of each other, the wildcard as a name, other writings of one address.
NAMES = ["*", "a", "ab", "abc", "b", "*a"]
PRINCIPALS = ["User:*", "User:alice", "User:bob", "Group:alice"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]
OPERATIONS = [operation for operation in Operation if operation > Operation.ANY]
KINDS = [ResourceType.TOPIC, ResourceType.GROUP]

patterns = st.builds(
    ResourcePattern,
    st.sampled_from(KINDS),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
entries = st.builds(
    AclEntry,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
acl_maps = st.dictionaries(patterns, st.lists(entries, min_size=1, max_size=3, unique=True).map(tuple), max_size=6)
questions = st.builds(
    Asked,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(["10.0.0.1", "10.0.0.3"]),
    st.sampled_from([operation for operation in OPERATIONS if operation is not Operation.ALL]),
    st.sampled_from(KINDS),
    st.sampled_from([*NAMES, "abcd", "z"]),
)

Acls = dict[ResourcePattern, tuple[AclEntry, ...]]


def has_a_say(pattern: ResourcePattern, kind: ResourceType, name: str) -> bool:
    if pattern.type is not kind:
        return False
    if pattern.pattern is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, "*")


def is_about(entry: AclEntry, asked: Asked) -> bool:
    if entry.principal not in (asked.principal, "User:*") or entry.host not in (asked.host, "*"):
        return False
    if entry.operation in (Operation.ALL, asked.operation):
        return True
    if entry.permission is Permission.DENY:
        return False
    if asked.operation is Operation.DESCRIBE:
        return entry.operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    return asked.operation is Operation.DESCRIBE_CONFIGS and entry.operation is Operation.ALTER_CONFIGS


def reference(acls: Acls, asked: Asked, super_users: frozenset[str], is_open: bool) -> bool:
    if asked.principal in super_users:
        return True
    on_resource = [
        entry for pattern, each in acls.items() if has_a_say(pattern, asked.kind, asked.name) for entry in each
    ]
    relevant = [entry.permission for entry in on_resource if is_about(entry, asked)]
    if Permission.DENY in relevant:
        return False
    if Permission.ALLOW in relevant:
        return True
    return is_open and not on_resource


def reference_anywhere(acls: Acls, asked: Asked, is_open: bool) -> bool:
    """Kafka's `authorizeByResourceType`, whose words are about patterns and not about names."""
    if reference(acls, asked._replace(name="hardcode"), frozenset(), is_open):
        return True
    mine = [
        (pattern, entry)
        for pattern, each in acls.items()
        for entry in each
        if pattern.type is asked.kind
        and entry.principal in (asked.principal, "User:*")
        and entry.host in (asked.host, "*")
        and entry.operation in (asked.operation, Operation.ALL)
    ]
    denied = {pattern for pattern, entry in mine if entry.permission is Permission.DENY}
    allowed = {pattern for pattern, entry in mine if entry.permission is Permission.ALLOW}
    everything = ResourcePattern(asked.kind, "*")
    if everything in denied:
        return False
    if everything in allowed:
        return True
    return any(
        not (pattern.pattern is PatternType.LITERAL and pattern in denied)
        and not any(other.pattern is PatternType.PREFIXED and pattern.name.startswith(other.name) for other in denied)
        for pattern in allowed
    )


@given(acl_maps, questions, st.frozensets(st.sampled_from(PRINCIPALS), max_size=1), st.booleans())
def test_the_index_decides_as_a_look_at_every_rule_does(
    acls: Acls, asked: Asked, super_users: frozenset[str], is_open: bool
) -> None:
    rules = Rules(AclIndex(acls), super_users=super_users, is_open_without_acls=is_open)
    decision = rules.decide(asked)
    assert decision.is_allowed is reference(acls, asked, super_users, is_open)
    assert (decision.reason is Reason.SUPER_USER) is (asked.principal in super_users)


@given(acl_maps, questions, st.booleans())
def test_a_right_on_any_resource_is_found_as_kafka_finds_it(acls: Acls, asked: Asked, is_open: bool) -> None:
    rules = Rules(AclIndex(acls), is_open_without_acls=is_open)
    principal, host, operation, kind, _ = asked
    assert rules.decide_anywhere(principal, host, operation, kind).is_allowed is reference_anywhere(
        acls, asked, is_open
    )


@given(acl_maps, acl_maps, questions)
def test_an_index_that_follows_another_decides_as_a_new_one(before: Acls, after: Acls, asked: Asked) -> None:
    kept = {pattern: before.get(pattern, entries) for pattern, entries in after.items()}
    followed = AclIndex(kept, AclIndex(before))
    assert followed.find(asked) == AclIndex(kept).find(asked)
    assert followed.count == sum(map(len, kept.values()))


@given(acl_maps, st.lists(st.tuples(patterns, st.lists(entries, max_size=2), st.integers(0, 3)), max_size=8), questions)
def test_an_index_that_has_followed_many_changes_decides_as_a_new_one(
    acls: Acls, changes: list[tuple[ResourcePattern, list[AclEntry], int]], asked: Asked
) -> None:
    """Rules come at the end and go anywhere, and what stays is the same object: so images are."""
    index = AclIndex(acls)
    for pattern, added, place in changes:
        present = acls.get(pattern, ())
        left = (*present[:place], *present[place + 1 :], *(each for each in added if each not in present))
        acls = acls | {pattern: left}
        if not left:
            del acls[pattern]
        index = AclIndex(acls, index)
        assert index.find(asked) == AclIndex(acls).find(asked)
        assert (index.find_anywhere(asked)[0] is None) is (AclIndex(acls).find_anywhere(asked)[0] is None)
        assert index.count == sum(map(len, acls.values()))


@given(acl_maps, questions)
def test_the_rule_that_is_named_is_one_that_applies(acls: Acls, asked: Asked) -> None:
    acl, _ = AclIndex(acls).find(asked)
    if acl is not None:
        assert acl.entry in acls[acl.pattern]
        assert has_a_say(acl.pattern, asked.kind, asked.name)
        assert is_about(acl.entry, asked)


filters = st.builds(
    AclFilter,
    st.sampled_from([ResourceType.ANY, *KINDS]),
    st.none() | st.sampled_from(NAMES),
    st.sampled_from([PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]),
    st.none() | st.sampled_from(PRINCIPALS),
    st.none() | st.sampled_from(HOSTS),
    st.sampled_from([Operation.ANY, *OPERATIONS]),
    st.sampled_from([Permission.ANY, Permission.ALLOW, Permission.DENY]),
)


def is_selected(asked: AclFilter, acl: Acl) -> bool:
    """Kafka's ResourcePatternFilter and AccessControlEntryFilter, one line for each field."""
    pattern, entry = acl
    fields = [
        asked.type in (ResourceType.ANY, pattern.type),
        asked.pattern in (PatternType.ANY, PatternType.MATCH, pattern.pattern),
        asked.principal in (None, entry.principal),
        asked.host in (None, entry.host),
        asked.operation in (Operation.ANY, entry.operation),
        asked.permission in (Permission.ANY, entry.permission),
    ]
    if asked.name is not None:
        is_match = asked.pattern is PatternType.MATCH
        fields.append(has_a_say(pattern, pattern.type, asked.name) if is_match else pattern.name == asked.name)
    return all(fields)


@given(acl_maps, filters)
def test_a_filter_selects_the_rules_that_each_of_its_fields_matches(acls: Acls, asked: AclFilter) -> None:
    everything = [Acl(pattern, entry) for pattern, each in acls.items() for entry in each]
    assert list(asked.select(acls)) == [acl for acl in everything if is_selected(asked, acl)]
