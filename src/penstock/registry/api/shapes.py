"""Parameters, bodies and answers of the API as JSON Schema, for the OpenAPI document."""

from __future__ import annotations

from penstock.http.openapi import reference
from penstock.http.operations import Parameter, Shape
from penstock.schemas.compatibility import Level
from penstock.schemas.schema import Policy, SchemaType

_TEXT: Shape = {"type": "string"}
_FLAG: Shape = {"type": "boolean"}
_NUMBER: Shape = {"type": "integer", "format": "int32"}
_TEXTS: Shape = {"type": "array", "items": _TEXT}
_MODES = ["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"]

PATH_PARAMETERS = {
    each.name: each
    for each in (
        Parameter(
            "subject",
            "A subject; `%2F` for a slash, and `:.context:name` outside of the default context.",
            _TEXT,
            "orders-value",
        ),
        Parameter("version", "A number, `latest` or `-1`.", _TEXT, "latest"),
        Parameter("id", "An id, which counts within its context.", _NUMBER, 1),
        Parameter("guid", "The guid of a schema.", _TEXT, "00000000-0000-0000-0000-000000000000"),
        Parameter("context", "A context: `:.name:`.", _TEXT, ":.c:"),
        Parameter("namespace", "The namespace of a resource, `-` for none.", _TEXT, "-"),
        Parameter("resource", "A resource: a topic.", _TEXT, "orders"),
    )
}

QUERY_PARAMETERS = {
    each.name: each
    for each in (
        Parameter("aliases", "Also versions that an alias leads to.", _FLAG),
        Parameter("contextPrefix", "Contexts that begin so.", _TEXT),
        Parameter("defaultToGlobal", "What counts there, if nothing is set there.", _FLAG),
        Parameter("deleted", "Also what is deleted softly.", _FLAG),
        Parameter("deletedAsNegative", "Versions that are deleted softly with a minus in front.", _FLAG),
        Parameter("deletedOnly", "What is deleted softly, and nothing else.", _FLAG),
        Parameter("fetchMaxId", "Also the highest id.", _FLAG),
        Parameter("findTags", "Inline tags to look for; `*` finds all.", _TEXTS),
        Parameter("force", "Although there are schemas already.", _FLAG),
        Parameter(
            "format",
            "Of the text: `resolved` (Avro), `serialized` or `ignore_extensions` (Protobuf); others mean nothing.",
            _TEXT,
        ),
        Parameter("key", "Names of properties.", _TEXTS),
        Parameter("latestOnly", "The latest version of each subject alone.", _FLAG),
        Parameter("limit", "At most so many; all, if negative.", _NUMBER),
        Parameter("normalize", "The schema with everything sorted whose order means nothing.", _FLAG),
        Parameter("offset", "Without the first so many.", _NUMBER),
        Parameter("permanent", "For good; only what is deleted softly.", _FLAG),
        Parameter("recursive", "Also of the subjects in the context.", _FLAG),
        Parameter("referenceFormat", "`qualified`: subjects in references with their context.", _TEXT),
        Parameter("ruleType", "Schemas that have rules of this type.", _TEXT),
        Parameter("subject", "A subject, or `:.context:`: the context in which the id counts.", _TEXT),
        Parameter("subjectPrefix", "Subjects that begin so; `:*:` in front looks into all contexts.", _TEXT),
        Parameter("value", "Values of the properties, in the same order.", _TEXTS),
        Parameter("verbose", "Also why not.", _FLAG),
    )
}
# Parameters that many operations have.
PAGE = ("offset", "limit")
DELETED = ("deleted", "deletedOnly")
RENDERING = ("format", "referenceFormat", "findTags")


def parameters(*names: str) -> tuple[Parameter, ...]:
    """The parameters of a query."""
    return tuple(QUERY_PARAMETERS[each] for each in names)


def _object(properties: dict[str, Shape], *required: str) -> Shape:
    shape: Shape = {"type": "object", "properties": properties}
    return shape | {"required": list(required)} if required else shape


def _list(items: Shape) -> Shape:
    return {"type": "array", "items": items}


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
    "Content": _object(
        {**_CONTENT, "guid": _TEXT, "maxId": _NUMBER, "subject": _TEXT, "version": _NUMBER, "deleted": _FLAG},
        "schema",
        "schemaType",
        "guid",
    ),
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
