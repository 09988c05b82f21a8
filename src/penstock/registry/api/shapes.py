"""Parameters, bodies and answers of the API as JSON Schema: what the OpenAPI document says of them."""

from __future__ import annotations

from typing import NamedTuple

from penstock.schemas.compatibility import Level
from penstock.schemas.schema import Policy, SchemaType

Shape = dict[str, object]

_TEXT: Shape = {"type": "string"}
_FLAG: Shape = {"type": "boolean"}
_NUMBER: Shape = {"type": "integer", "format": "int32"}
_TEXTS: Shape = {"type": "array", "items": _TEXT}
_MODES = ["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"]


class Parameter(NamedTuple):
    words: str
    shape: Shape
    example: object = None


PATH_PARAMETERS = {
    "subject": Parameter(
        "A subject; `%2F` for a slash, and `:.context:name` outside of the default context.", _TEXT, "orders-value"
    ),
    "version": Parameter("A number, `latest` or `-1`.", _TEXT, "latest"),
    "id": Parameter("An id, which counts within its context.", _NUMBER, 1),
    "guid": Parameter("The guid of a schema.", _TEXT, "00000000-0000-0000-0000-000000000000"),
    "context": Parameter("A context: `:.name:`.", _TEXT, ":.c:"),
    "namespace": Parameter("The namespace of a resource, `-` for none.", _TEXT, "-"),
    "resource": Parameter("A resource: a topic.", _TEXT, "orders"),
}

QUERY_PARAMETERS = {
    "aliases": Parameter("Also versions that an alias leads to.", _FLAG),
    "contextPrefix": Parameter("Contexts that begin so.", _TEXT),
    "defaultToGlobal": Parameter("What counts there, if nothing is set there.", _FLAG),
    "deleted": Parameter("Also what is deleted softly.", _FLAG),
    "deletedAsNegative": Parameter("Versions that are deleted softly with a minus in front.", _FLAG),
    "deletedOnly": Parameter("What is deleted softly, and nothing else.", _FLAG),
    "fetchMaxId": Parameter("Also the highest id.", _FLAG),
    "findTags": Parameter("Inline tags to look for; `*` finds all.", _TEXTS),
    "force": Parameter("Although there are schemas already.", _FLAG),
    "format": Parameter(
        "Of the text: `resolved` (Avro), `serialized` or `ignore_extensions` (Protobuf); others mean nothing.", _TEXT
    ),
    "key": Parameter("Names of properties.", _TEXTS),
    "latestOnly": Parameter("The latest version of each subject alone.", _FLAG),
    "limit": Parameter("At most so many; all, if negative.", _NUMBER),
    "normalize": Parameter("The schema with everything sorted whose order means nothing.", _FLAG),
    "offset": Parameter("Without the first so many.", _NUMBER),
    "permanent": Parameter("For good; only what is deleted softly.", _FLAG),
    "recursive": Parameter("Also of the subjects in the context.", _FLAG),
    "referenceFormat": Parameter("`qualified`: subjects in references with their context.", _TEXT),
    "ruleType": Parameter("Schemas that have rules of this type.", _TEXT),
    "subject": Parameter("A subject, or `:.context:`: the context in which the id counts.", _TEXT),
    "subjectPrefix": Parameter("Subjects that begin so; `:*:` in front looks into all contexts.", _TEXT),
    "value": Parameter("Values of the properties, in the same order.", _TEXTS),
    "verbose": Parameter("Also why not.", _FLAG),
}


def _object(properties: dict[str, Shape], *required: str) -> Shape:
    shape: Shape = {"type": "object", "properties": properties}
    return shape | {"required": list(required)} if required else shape


def _list(items: Shape) -> Shape:
    return {"type": "array", "items": items}


def reference(name: str) -> Shape:
    return {"$ref": f"#/components/schemas/{name}"}


_CONTENT: dict[str, Shape] = {
    "schemaType": {"type": "string", "enum": list(SchemaType)},
    "schema": _TEXT,
    "references": _list(reference("Reference")),
    "metadata": reference("Metadata"),
    "ruleSet": reference("RuleSet"),
    "schemaTags": _list(reference("Tags")),
}
_SETTINGS: dict[str, Shape] = {
    "alias": _TEXT,
    "aliasForDeks": _TEXT,
    "normalize": _FLAG,
    "validateFields": _FLAG,
    "validateNewSchemas": _FLAG,
    "validateRules": _FLAG,
    "compatibilityPolicy": {"type": "string", "enum": list(Policy)},
    "compatibilityGroup": _TEXT,
    "defaultMetadata": reference("Metadata"),
    "overrideMetadata": reference("Metadata"),
    "defaultRuleSet": reference("RuleSet"),
    "overrideRuleSet": reference("RuleSet"),
}
_LEVEL: Shape = {"type": "string", "enum": list(Level)}
_REGISTERED = {"id": _NUMBER, "version": _NUMBER, "guid": _TEXT, **_CONTENT}

SHAPES: dict[str, Shape] = {
    "Names": _TEXTS,
    "Numbers": _list(_NUMBER),
    "Number": _NUMBER,
    "Text": {},
    "Nothing": _object({}),
    "Reference": _object({"name": _TEXT, "subject": _TEXT, "version": _NUMBER}),
    "Metadata": _object(
        {
            "tags": {"type": "object", "additionalProperties": _TEXTS},
            "properties": {"type": "object", "additionalProperties": _TEXT},
            "sensitive": _TEXTS,
        }
    ),
    "Rule": _object(
        {
            **dict.fromkeys(("name", "doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure"), _TEXT),
            "tags": _TEXTS,
            "params": {"type": "object", "additionalProperties": _TEXT},
            "disabled": _FLAG,
        }
    ),
    "RuleSet": _object(
        {
            **dict.fromkeys(("migrationRules", "domainRules", "encodingRules"), _list(reference("Rule"))),
            "enableAt": _TEXT,
        }
    ),
    "Tags": _object({"schemaEntity": _object({"entityPath": _TEXT, "entityType": _TEXT}), "tags": _TEXTS}),
    "SchemaRequest": _object(
        {
            "schema": _TEXT,
            "schemaType": _CONTENT["schemaType"],
            "references": _list(reference("Reference")),
            "metadata": reference("Metadata"),
            "ruleSet": reference("RuleSet"),
            "version": _NUMBER,
            "id": _NUMBER,
            "schemaTagsToAdd": _list(reference("Tags")),
            "schemaTagsToRemove": _list(reference("Tags")),
        }
    ),
    "TagRequest": _object(
        {
            "tagsToAdd": _list(reference("Tags")),
            "tagsToRemove": _list(reference("Tags")),
            "newVersion": _NUMBER,
            "metadata": reference("Metadata"),
            "ruleSet": reference("RuleSet"),
        }
    ),
    "Content": _object({**_CONTENT, "guid": _TEXT, "maxId": _NUMBER}, "schema", "schemaType", "guid"),
    "Registered": _object(_REGISTERED, "id"),
    "Schema": _object(
        {"subject": _TEXT, **_REGISTERED, "deleted": _FLAG}, "subject", "version", "id", "guid", "schemaType", "schema"
    ),
    "Schemas": _list(reference("Schema")),
    "SubjectVersions": _list(_object({"subject": _TEXT, "version": _NUMBER}, "subject", "version")),
    "ContextIds": _list(_object({"context": _TEXT, "id": _NUMBER}, "context", "id")),
    "Config": _object({"compatibilityLevel": _LEVEL, **_SETTINGS}),
    "ConfigChange": _object({"compatibility": _LEVEL, **_SETTINGS}),
    "Mode": _object({"mode": {"type": "string", "enum": _MODES}}, "mode"),
    "Compatibility": _object({"is_compatible": _FLAG, "messages": _TEXTS}, "is_compatible"),
    "Associations": _list(_object({})),
    "ClusterId": _object(
        {
            "id": _TEXT,
            "scope": _object({"path": _TEXTS, "clusters": {"type": "object", "additionalProperties": _TEXT}}),
        },
        "id",
        "scope",
    ),
    "Release": _object({"version": _TEXT}, "version"),
    "Deployment": _object({"attributes": _TEXTS}, "attributes"),
    "Health": _object({"status": _TEXT, "reasons": _TEXTS}, "status"),
    "Error": _object({"error_code": {"type": "integer"}, "message": _TEXT}, "error_code", "message"),
}
