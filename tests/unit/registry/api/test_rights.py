"""Who may do what to which subject."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.core.config.types import ConfigError
from penstock.registry.api.rights import Right, SubjectRights, load_rights, parse_rights


def rights(*rules: tuple[str, str, str, str | None, str], super_users: tuple[str, ...] = ()) -> SubjectRights:
    document = {
        "superUsers": super_users,
        "rules": [
            {"principal": principal, "permission": permission, "operations": operations.split(), "pattern": pattern}
            | ({} if subject is None else {"subject": subject})
            for permission, principal, operations, subject, pattern in rules
        ],
    }
    return parse_rights(json.dumps(document).encode())


def may(found: SubjectRights, principal: str, right: Right, subject: str = "orders-value") -> bool:
    return found.decide(principal, "127.0.0.1", right, subject).is_allowed


def test_everything_is_denied_when_no_rule_allows_it() -> None:
    found = rights(("allow", "User:alice", "READ", "orders-value", "literal"))
    assert may(found, "User:alice", Right.READ)
    assert not may(found, "User:alice", Right.WRITE)
    assert not may(found, "User:bob", Right.READ)
    assert not may(found, "User:alice", Right.READ, "orders-key")


@pytest.mark.parametrize(
    ("pattern", "subject", "name", "is_matched"),
    [
        ("prefixed", "orders-", "orders-key", True),
        ("prefixed", "orders-", "order", False),
        ("prefixed", "orders-", ":.c:orders-key", False),
        ("prefixed", ":.c:", ":.c:orders-key", True),
        ("literal", "*", "anything", True),
        ("literal", "*", ":.c:anything", True),
        ("literal", "orders-", "orders-key", False),
    ],
)
def test_rule_counts_when_its_pattern_matches_the_subject(
    pattern: str, subject: str, name: str, is_matched: bool
) -> None:
    assert may(rights(("allow", "User:a", "READ", subject, pattern)), "User:a", Right.READ, name) is is_matched
    both = (("allow", "User:a", "ALL", "*", "literal"), ("deny", "User:a", "READ", subject, pattern))
    assert may(rights(*both), "User:a", Right.READ, name) is not is_matched
    assert may(rights(*both), "User:a", Right.WRITE, name)


def test_rule_for_everybody_counts_when_the_caller_has_logged_in() -> None:
    found = rights(("allow", "User:*", "READ", "*", "literal"))
    assert may(found, "User:whoever", Right.READ)


def test_config_may_be_read_when_it_may_be_changed() -> None:
    found = rights(("allow", "User:a", "WRITE_CONFIG", "*", "literal"))
    assert may(found, "User:a", Right.READ_CONFIG)
    assert not may(found, "User:a", Right.READ)


def test_admin_is_apart_when_all_operations_on_all_subjects_are_allowed() -> None:
    assert not may(rights(("allow", "User:a", "ALL", "*", "literal")), "User:a", Right.ADMIN)
    found = rights(("allow", "User:a", "ADMIN", None, "literal"))
    assert may(found, "User:a", Right.ADMIN)
    assert not may(found, "User:a", Right.WRITE_CONFIG)


def test_super_user_may_do_everything_when_all_is_denied() -> None:
    found = rights(("deny", "User:*", "ALL", "*", "literal"), super_users=("User:root",))
    assert all(may(found, "User:root", right) for right in Right)


def test_decision_names_its_rule_when_the_trail_asks() -> None:
    found = rights(("deny", "User:a", "READ", "secret-", "prefixed"))
    assert found.decide("User:a", "", Right.READ, "secret-x").rule == "rule deny User:a READ Subject:secret-*"
    assert found.decide("User:a", "", Right.READ, "other").rule == "no rule"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "truncated"),
        ('{"rule": []}', "unknown field `rule`"),
        ('{"rules": [{"principal": "a", "permission": "allow", "operations": ["READ"], "subject": "s"}]}', "User:name"),
        ('{"rules": [{"principal": "User:a", "permission": "may", "operations": ["READ"], "subject": "s"}]}', "may"),
        ('{"rules": [{"principal": "User:a", "permission": "allow", "operations": ["LOOK"], "subject": "s"}]}', "LOOK"),
        ('{"rules": [{"principal": "User:a", "permission": "allow", "operations": ["READ"]}]}', "no subject"),
        ('{"rules": [{"principal": "User:a", "permission": "allow", "operations": [], "subject": "s"}]}', "no operat"),
        (
            '{"rules": [{"principal": "User:a", "permission": "allow", "operations": ["ADMIN"], "subject": "s"}]}',
            "ADMIN",
        ),
        ('{"superUsers": ["root"]}', "User:name"),
    ],
)
def test_file_is_refused_with_words_when_something_in_it_is_wrong(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "rights.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_rights(file)


def test_start_fails_with_words_when_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_rights(tmp_path / "nothing")
