"""Metadata and rules as JSON has them, in requests, answers and the records of `_schemas`, and the checks of rules.

Fields that are empty are left out. Rules are not executed here: clients do that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields

from penstock.schemas.json_text import Json
from penstock.schemas.schema import InvalidSchemaError, Metadata, Rule, RuleSet

_RULE_NAME = re.compile(r"[^\W\d][\w-]{0,255}")
# Modes of rules by their list. Two of them go both ways, and may have two actions with a comma between.
_MODES = {
    "migrationRules": frozenset({"UPGRADE", "DOWNGRADE", "UPDOWN"}),
    "domainRules": frozenset({"WRITE", "READ", "WRITEREAD"}),
    "encodingRules": frozenset({"WRITE", "READ", "WRITEREAD"}),
}
_BOTH_WAYS = frozenset({"UPDOWN", "WRITEREAD"})
_KINDS = frozenset({"TRANSFORM", "CONDITION"})
_JSON_NAMES = {"on_success": "onSuccess", "on_failure": "onFailure"}


def metadata_from_json(document: Json) -> Metadata | None:
    if document is None:
        return None
    content = _object(document, "metadata")
    tags = {path: _strings(each, "tags") for path, each in _object(content.get("tags"), "tags").items()}
    properties = {
        name: _string(each, "properties") for name, each in _object(content.get("properties"), "properties").items()
    }
    return Metadata.of(tags, properties, _strings(content.get("sensitive"), "sensitive"))


def metadata_to_json(metadata: Metadata) -> dict[str, Json]:
    document: dict[str, Json] = {}
    if metadata.tags:
        document["tags"] = {path: list(tags) for path, tags in metadata.tags}
    if metadata.properties:
        document["properties"] = dict(metadata.properties)
    if metadata.sensitive:
        document["sensitive"] = list(metadata.sensitive)
    return document


def rule_set_from_json(document: Json) -> RuleSet | None:
    if document is None:
        return None
    content = _object(document, "ruleSet")
    migration, domain, encoding = (tuple(map(_rule, _list(content.get(name), name))) for name in _MODES)
    enable_at = content.get("enableAt")
    return RuleSet(migration, domain, encoding, None if enable_at is None else _string(enable_at, "enableAt"))


def rule_set_to_json(rule_set: RuleSet) -> dict[str, Json]:
    document: dict[str, Json] = {
        name: [_rule_to_json(each) for each in rules] for name, rules in _lists(rule_set) if rules
    }
    if rule_set.enable_at is not None:
        document["enableAt"] = rule_set.enable_at
    return document


def merged_metadata(old: Metadata | None, new: Metadata | None) -> Metadata | None:
    """A config's metadata for every schema, merged with the schema's own, which wins."""
    if old is None or new is None:
        return new if old is None else old
    return Metadata.of(
        dict(old.tags) | dict(new.tags), dict(old.properties) | dict(new.properties), (*old.sensitive, *new.sensitive)
    )


def merged_rule_sets(old: RuleSet | None, new: RuleSet | None) -> RuleSet | None:
    """The old rules whose names the new set lacks, and then the new rules."""
    if old is None or new is None:
        return new if old is None else old
    return RuleSet(
        _merged(old.migration_rules, new.migration_rules),
        _merged(old.domain_rules, new.domain_rules),
        _merged(old.encoding_rules, new.encoding_rules),
        new.enable_at or old.enable_at,
    )


def _merged(old: tuple[Rule, ...], new: tuple[Rule, ...]) -> tuple[Rule, ...]:
    names = {rule.name for rule in new}
    return (*(rule for rule in old if rule.name not in names), *new)


def check_rule_set(rule_set: RuleSet) -> None:
    """Refuses rules that no client could execute."""
    seen: set[str | None] = set()
    for list_name, rules in _lists(rule_set):
        for rule in rules:
            if rule.name in seen:
                raise InvalidSchemaError(f"Found rule with duplicate name '{rule.name}'")
            seen.add(rule.name)
            problem = next(_problems(rule, list_name), None)
            if problem is not None:
                raise InvalidSchemaError(f"Rule '{rule.name}': {problem}")


def _problems(rule: Rule, list_name: str) -> Iterator[str]:
    if rule.name is None or not _RULE_NAME.fullmatch(rule.name):
        yield "a name has letters, digits, - and _, begins with a letter or _, and has 256 characters at most"
    if not rule.type:
        yield "the type is missing"
    if rule.kind is not None and rule.kind not in _KINDS:
        yield f"the kind {rule.kind} is unknown"
    if rule.mode not in _MODES[list_name]:
        yield f"the mode of {list_name} can only be {', '.join(sorted(_MODES[list_name]))}"
    if rule.mode not in _BOTH_WAYS and any("," in (action or "") for action in (rule.on_success, rule.on_failure)):
        yield "several actions are for WRITEREAD and UPDOWN alone"


def _lists(rule_set: RuleSet) -> Iterator[tuple[str, tuple[Rule, ...]]]:
    yield "migrationRules", rule_set.migration_rules
    yield "domainRules", rule_set.domain_rules
    yield "encodingRules", rule_set.encoding_rules


def _rule(document: Json) -> Rule:
    content = _object(document, "rule")
    texts: dict[str, str | None] = {}
    for name in ("name", "doc", "kind", "mode", "type", "expr", "on_success", "on_failure"):
        value = content.get(_JSON_NAMES.get(name, name))
        texts[name] = None if value is None else _string(value, name)
    params = {name: _string(each, "params") for name, each in _object(content.get("params"), "params").items()}
    return Rule(
        **texts,
        tags=tuple(sorted(set(_strings(content.get("tags"), "tags")))),
        params=tuple(sorted(params.items())),
        disabled=content.get("disabled") is True,
    )


def _rule_to_json(rule: Rule) -> Json:
    document: dict[str, Json] = {}
    for field in fields(rule):
        value = getattr(rule, field.name)
        if field.name == "params":
            value = dict(value)
        elif field.name == "tags":
            value = list(value)
        if value or field.name == "disabled":
            document[_JSON_NAMES.get(field.name, field.name)] = value
    return document


def _object(document: Json, name: str) -> Mapping[str, Json]:
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InvalidSchemaError(f"{name} is not an object")
    return document


def _list(document: Json, name: str) -> list[Json]:
    if document is None:
        return []
    if not isinstance(document, list):
        raise InvalidSchemaError(f"{name} is not a list")
    return document


def _string(document: Json, name: str) -> str:
    if not isinstance(document, str):
        raise InvalidSchemaError(f"A value in {name} is not a string")
    return document


def _strings(document: Json, name: str) -> list[str]:
    return [_string(each, name) for each in _list(document, name)]
