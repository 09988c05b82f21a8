from __future__ import annotations

from typing import Any

import pytest

from penstock.schemas.contracts import (
    check_rule_set,
    merged_metadata,
    merged_rule_sets,
    metadata_from_json,
    metadata_to_json,
    rule_set_from_json,
    rule_set_to_json,
)
from penstock.schemas.schema import InvalidSchemaError, Metadata, Rule, RuleSet

RULE: dict[str, Any] = {
    "name": "check", "doc": "d", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "tags": ["PII"],
    "params": {"a": "b"}, "expr": "true", "onSuccess": "NONE", "onFailure": "ERROR", "disabled": True,
}  # fmt: skip


def test_metadata_comes_and_goes_sorted_and_without_what_is_empty() -> None:
    document: Any = {"tags": {"b": ["y", "x"], "a": []}, "properties": {"k": "v"}, "sensitive": None}
    metadata = metadata_from_json(document)
    assert metadata == Metadata.of({"b": ["x", "y"], "a": []}, {"k": "v"})
    assert metadata_to_json(metadata) == {"tags": {"a": [], "b": ["x", "y"]}, "properties": {"k": "v"}}
    assert metadata_from_json(None) is None
    assert metadata_from_json({}) == Metadata()
    assert metadata_to_json(Metadata()) == {}


def test_rules_come_and_go_as_they_are() -> None:
    document: Any = {"domainRules": [RULE], "enableAt": "x"}
    rules = rule_set_from_json(document)
    assert rules is not None
    assert rule_set_to_json(rules) == document
    check_rule_set(rules)
    assert rule_set_from_json(None) is None
    assert rule_set_from_json({}) == RuleSet()
    assert rule_set_to_json(RuleSet()) == {}


@pytest.mark.parametrize(
    "document",
    [[], {"tags": []}, {"tags": {"a": "b"}}, {"tags": {"a": [1]}}, {"properties": {"a": 1}}, {"sensitive": {}}],
)
def test_metadata_of_another_form_is_refused(document: Any) -> None:
    with pytest.raises(InvalidSchemaError):
        metadata_from_json(document)


@pytest.mark.parametrize(
    "document", [[], {"domainRules": {}}, {"domainRules": [1]}, {"domainRules": [{"name": 1}]}, {"enableAt": 1}]
)
def test_rules_of_another_form_are_refused(document: Any) -> None:
    with pytest.raises(InvalidSchemaError):
        rule_set_from_json(document)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": None}, "a name has"),
        ({"name": "1x"}, "a name has"),
        ({"name": "x" * 257}, "a name has"),
        ({"type": None}, "type is missing"),
        ({"kind": "OTHER"}, "kind OTHER"),
        ({"mode": "UPGRADE"}, "mode of domainRules"),
        ({"mode": None}, "mode of domainRules"),
        ({"onFailure": "A,B"}, "several actions"),
    ],
)
def test_a_rule_that_no_client_could_execute_is_refused(change: dict[str, Any], said: str) -> None:
    rules = rule_set_from_json({"domainRules": [RULE | change]})
    assert rules is not None
    with pytest.raises(InvalidSchemaError, match=said):
        check_rule_set(rules)


def test_two_rules_of_one_name_are_refused() -> None:
    rules = rule_set_from_json({"domainRules": [RULE], "migrationRules": [RULE | {"mode": "UPGRADE"}]})
    assert rules is not None
    with pytest.raises(InvalidSchemaError, match="duplicate name 'check'"):
        check_rule_set(rules)


def test_what_is_new_wins_when_contracts_are_merged() -> None:
    old = Metadata.of({"a": ["x"]}, {"k": "old", "l": "l"}, ["s"])
    new = Metadata.of({"a": ["y"], "b": ["z"]}, {"k": "new"}, ["t"])
    expected = Metadata.of({"a": ["y"], "b": ["z"]}, {"k": "new", "l": "l"}, ["s", "t"])
    assert merged_metadata(old, new) == expected
    assert merged_metadata(None, new) == new
    assert merged_metadata(old, None) == old
    first, second, other = Rule("a", expr="1"), Rule("b"), Rule("a", expr="2")
    rules = merged_rule_sets(RuleSet(domain_rules=(first, second), enable_at="x"), RuleSet(domain_rules=(other,)))
    assert rules == RuleSet(domain_rules=(second, other), enable_at="x")
    assert merged_rule_sets(None, rules) == rules
    assert merged_rule_sets(rules, None) == rules
