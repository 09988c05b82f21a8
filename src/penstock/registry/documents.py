"""Config and schemas as JSON has them, in the records of `_schemas` and over HTTP alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from penstock.registry.errors import invalid_compatibility_level, invalid_config, invalid_rule_set
from penstock.registry.model import Config, ConfigRequest
from penstock.schemas.compatibility import Level
from penstock.schemas.contracts import (
    check_rule_set,
    metadata_from_json,
    metadata_to_json,
    rule_set_from_json,
    rule_set_to_json,
)
from penstock.schemas.json_text import Json
from penstock.schemas.schema import InvalidSchemaError, Metadata, Policy, Reference, RuleSet


def reference_to_json(reference: Reference) -> dict[str, Json]:
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def reference_from_json(document: Json) -> Reference:
    """The reference, or an `InvalidSchemaError`."""
    if not isinstance(document, dict):
        raise InvalidSchemaError("A reference is not an object")
    name, subject, version = document.get("name"), document.get("subject"), document.get("version")
    if not isinstance(name, str) or not isinstance(subject, str):
        raise InvalidSchemaError("A reference has a name and a subject, which are strings")
    if not isinstance(version, int) or isinstance(version, bool) or not -1 <= version < 1 << 31:
        raise InvalidSchemaError("The version of a reference is a number, or -1 for the latest one")
    return Reference(name, subject, version)


def references_from_json(document: Json) -> tuple[Reference, ...]:
    if document is None:
        return ()
    if not isinstance(document, list):
        raise InvalidSchemaError("references is not a list")
    return tuple(map(reference_from_json, document))


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a config: its name in JSON, and how its value is read and written."""

    name: str
    read: Callable[[Json], Any]
    write: Callable[[Any], Json]


def _text(document: Json) -> str:
    if not isinstance(document, str):
        raise InvalidSchemaError(f"{document!r} is not a string")
    return document


def _flag(document: Json) -> bool:
    if not isinstance(document, bool):
        raise InvalidSchemaError(f"{document!r} is neither true nor false")
    return document


def _level(document: Json) -> Level:
    name = str(document)
    if not isinstance(document, str) or name.upper() not in Level.__members__:
        raise invalid_compatibility_level(name)
    return Level[name.upper()]


def _policy(document: Json) -> Policy:
    name = str(document)
    if not isinstance(document, str) or name.upper() not in Policy.__members__:
        raise invalid_config(f"the compatibility policy '{name}' is none of {', '.join(Policy)}")
    return Policy[name.upper()]


def _metadata(document: Json) -> Metadata:
    metadata = metadata_from_json(document)
    assert metadata is not None
    return metadata


def _rule_set(document: Json) -> RuleSet:
    rule_set = rule_set_from_json(document)
    assert rule_set is not None
    return rule_set


def _as_it_is(value: Any) -> Json:
    plain: Json = value
    return plain


# In the order in which they are written.
_FIELDS: dict[str, _Field] = {
    "alias": _Field("alias", _text, _as_it_is),
    "alias_for_deks": _Field("aliasForDeks", _text, _as_it_is),
    "normalize": _Field("normalize", _flag, _as_it_is),
    "validate_fields": _Field("validateFields", _flag, _as_it_is),
    "validate_new_schemas": _Field("validateNewSchemas", _flag, _as_it_is),
    "validate_rules": _Field("validateRules", _flag, _as_it_is),
    "compatibility_level": _Field("compatibilityLevel", _level, str),
    "compatibility_policy": _Field("compatibilityPolicy", _policy, str),
    "compatibility_group": _Field("compatibilityGroup", _text, _as_it_is),
    "default_metadata": _Field("defaultMetadata", _metadata, metadata_to_json),
    "override_metadata": _Field("overrideMetadata", _metadata, metadata_to_json),
    "default_rule_set": _Field("defaultRuleSet", _rule_set, rule_set_to_json),
    "override_rule_set": _Field("overrideRuleSet", _rule_set, rule_set_to_json),
}
assert _FIELDS.keys() == {field.name for field in fields(Config)}


def config_to_json(config: Config) -> dict[str, Json]:
    """A config in its stored form, which GET and DELETE return too. Fields that are not set are left out."""
    return {
        field.name: field.write(value)
        for name, field in _FIELDS.items()
        if (value := getattr(config, name)) is not None
    }


def config_from_json(document: Mapping[str, Json]) -> Config:
    """A stored config; `InvalidSchemaError` or `RegistryError` if it is none."""
    values = {
        name: field.read(document[field.name])
        for name, field in _FIELDS.items()
        if document.get(field.name) is not None
    }
    return Config(**values)


def config_request_from_json(document: Mapping[str, Json]) -> ConfigRequest:
    """The body of a PUT, where the level is named `compatibility`. Null unsets a field (42203, 42210)."""
    given = dict(document)
    if "compatibility" in given:
        given["compatibilityLevel"] = given["compatibility"]
    try:
        changes = {
            name: None if given[field.name] is None else field.read(given[field.name])
            for name, field in _FIELDS.items()
            if field.name in given
        }
    except InvalidSchemaError as error:
        raise invalid_config(str(error)) from None
    for name in ("default_rule_set", "override_rule_set"):
        rule_set = changes.get(name)
        if rule_set is not None:
            try:
                check_rule_set(rule_set)
            except InvalidSchemaError as error:
                raise invalid_rule_set(str(error)) from None
    return ConfigRequest(changes)


def config_request_to_json(request: ConfigRequest) -> dict[str, Json]:
    """The answer to a PUT: the request's fields, with the level as `compatibility`."""
    document: dict[str, Json] = {}
    for name, field in _FIELDS.items():
        if name in request.changes:
            value = request.changes[name]
            json_name = "compatibility" if name == "compatibility_level" else field.name
            document[json_name] = None if value is None else field.write(value)
    return document
