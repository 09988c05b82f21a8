"""The first half of register, lookup and compatibility checks: the meaning of a request, and its conflicts.

`gather_*` reads the state on the loop and gives values that do not change. `judge` and `find` work on these in a
thread. If the same values are gathered again, a judgement still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from penstock.registry.model import Config, Content, Mode, SchemaRequest, StoredSchema
from penstock.registry.operations.parsing import OlderVersion, Parser, SchemaSource, source_of
from penstock.registry.operations.references import resolve, with_versions
from penstock.registry.operations.scopes import config_in_scope, mode_in_scope
from penstock.registry.records import content_of
from penstock.registry.state import State
from penstock.schemas.compatibility import CompatibilityRules, Level, check, is_transitive
from penstock.schemas.contracts import merged_metadata, merged_rule_sets
from penstock.schemas.schema import (
    InvalidSchemaError,
    Metadata,
    ParsedSchema,
    Policy,
    Reference,
    ResolvedReference,
    SchemaType,
)

# Tools write the version of a schema into its metadata, which does not make it another schema.
_VERSION_PROPERTY = "confluent:version"
# The limit for all versions in comparisons: some tens of milliseconds.
_MOST_RESOLVED_REFERENCES = 20_000
# The number of versions with references that are resolved to find a schema that a caller sent without references.
_MOST_RESOLVED_VERSIONS = 100


@dataclass(frozen=True, slots=True)
class Given:
    """A request with all values that its interpretation needs."""

    subject: str
    request: SchemaRequest
    schema_type: SchemaType
    resolved: tuple[ResolvedReference, ...]
    references: tuple[Reference, ...]
    normalize: bool
    is_new: bool

    @property
    def source(self) -> SchemaSource:
        return SchemaSource(self.schema_type, self.request.text, self.references, self.resolved, self.is_new)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version to compare the request with, with the values for its parse."""

    stored: StoredSchema
    resolved: tuple[ResolvedReference, ...]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Everything in the state that a judgement depends on."""

    given: Given
    config: Config
    mode: Mode
    # Oldest first.
    live: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    # The live version that has the schema.
    existing: StoredSchema | None
    # The schema to store otherwise.
    content: Content
    # The conflicts.
    messages: tuple[str, ...] = ()


def gather(
    state: State, subject: str, request: SchemaRequest, default_level: Level, *, normalize: bool, is_new: bool
) -> Circumstances:
    """On the loop. `InvalidSchemaError` if the type or a reference is unknown."""
    config = config_in_scope(state, subject, default_level)
    versions = state.subject(subject)
    live = () if versions is None else tuple(versions.oldest_first())
    request = _with_last_text(request, live[-1].content if live else None)
    references = with_versions(state, subject, request.references)
    schema_type = schema_type_of(request.schema_type)
    given = Given(
        subject,
        request,
        schema_type,
        resolve(state, subject, references),
        references,
        normalize or config.normalize is True,
        # Defaults that Avro does not allow are checked unless the config turns that off.
        is_new and not (schema_type is SchemaType.AVRO and config.validate_new_schemas is False),
    )
    return Circumstances(given, config, mode_in_scope(state, subject), _candidates(state, given, config, live))


def _candidates(state: State, given: Given, config: Config, live: Sequence[StoredSchema]) -> tuple[Candidate, ...]:
    """All live versions. Resolves the references of those that will be parsed: on the loop, so their number counts."""
    first_parsed = len(live) - 1
    if is_transitive(config.compatibility_level or Level.BACKWARD) or config.compatibility_group is not None:
        first_parsed = 0
    elif not given.references:
        first_parsed = max(0, len(live) - _MOST_RESOLVED_VERSIONS)
    candidates: list[Candidate] = []
    resolved_count = 0
    for position, stored in enumerate(live):
        resolved: tuple[ResolvedReference, ...] = ()
        if stored.content.references and position >= first_parsed:
            # An imported version without its references is not resolved. Its parse reports that.
            with suppress(InvalidSchemaError):
                resolved = resolve(state, stored.subject, stored.content.references)
            resolved_count += len(resolved)
            if resolved_count > _MOST_RESOLVED_REFERENCES:
                raise InvalidSchemaError(
                    f"The versions to compare with refer to more than {_MOST_RESOLVED_REFERENCES} schemas"
                )
        candidates.append(Candidate(stored, resolved))
    return tuple(candidates)


def schema_type_of(name: str) -> SchemaType:
    if not name:
        return SchemaType.AVRO
    if name not in SchemaType.__members__:
        raise InvalidSchemaError(f"Invalid schema type {name}")
    return SchemaType[name]


def _with_last_text(request: SchemaRequest, last: Content | None) -> SchemaRequest:
    """New metadata or rules without a text are for the last schema."""
    if request.text:
        return request
    if last is None or (request.metadata is None and request.rule_set is None):
        raise InvalidSchemaError("Empty schema")
    return replace(request, text=last.text, schema_type=str(last.schema_type), references=last.references)


def parsed_request(given: Given, parser: Parser) -> ParsedSchema:
    parsed = parser.parse(given.source)
    request = given.request
    if request.tags_to_add or request.tags_to_remove:
        text = parsed.retagged_text(request.tags_to_add, request.tags_to_remove)
        parsed = parser.parse(replace(given.source, text=text))
    return parsed.normalized() if given.normalize else parsed


def content_as_given(given: Given, parsed: ParsedSchema) -> Content:
    request = given.request
    return content_of(given.schema_type, parsed.canonical_text, parsed.references, request.metadata, request.rule_set)


def find_at_once(circumstances: Circumstances, parser: Parser) -> StoredSchema | None:
    """On the loop: the live version with exactly this content, if the search takes no work. Serializers register
    existing schemas again and again.
    """
    given = circumstances.given
    request = given.request
    if given.normalize or request.tags_to_add or request.tags_to_remove:
        return None
    parsed = parser.known(given.source) or parser.known(replace(given.source, is_new=True))
    if parsed is None:
        return None
    try:
        content = content_as_given(given, parsed)
    except InvalidSchemaError:
        return None
    return next((each.stored for each in reversed(circumstances.live) if each.stored.content.md5 == content.md5), None)


def judge(circumstances: Circumstances, parser: Parser) -> Judgement:
    """In a thread. Returns an existing live version; compares everything else with the live versions."""
    given, config, live = circumstances.given, circumstances.config, circumstances.live
    parsed = parsed_request(given, parser)
    as_given = content_as_given(given, parsed)
    existing = find(as_given, given, live, parser)
    if existing is not None:
        return Judgement(existing, as_given)
    content = content_with_contract(circumstances, parsed)
    existing = find(content, given, live, parser)
    if existing is not None:
        return Judgement(existing, content)
    check_usable(content, circumstances, parser)
    if circumstances.mode is Mode.IMPORT:
        return Judgement(None, content)
    return Judgement(None, content, tuple(compare(parsed, content.metadata, live, rules_of(config), parser)))


def check_usable(content: Content, circumstances: Circumstances, parser: Parser) -> None:
    """Refuses a schema that no later step could use: reads the text in its stored form again, and compares it with
    itself. Types nest deeper in the stored text than in the given text where names stand before their definitions, and
    a first version meets no other for a comparison. Otherwise each later version would be refused because of it.

    An import is only read again: its schemas are in use elsewhere. The level NONE compares nothing. A new schema pays
    what its successor saves: the stored text is parsed by then.
    """
    stored = parser.parse(source_of(content, circumstances.given.resolved))
    rules = rules_of(circumstances.config)
    if rules.level is not Level.NONE and circumstances.mode is not Mode.IMPORT:
        stored.differences_from(stored, rules.policy)


def find(content: Content, given: Given, live: Sequence[Candidate], parser: Parser) -> StoredSchema | None:
    """The newest version with this content, or with content that is equal once its references are resolved."""
    for candidate in reversed(live):
        if is_same(candidate.stored.content, content):
            return candidate.stored
    changes_tags = given.request.tags_to_add or given.request.tags_to_remove
    if changes_tags or content.references or not any(each.stored.content.references for each in live):
        return None
    own = parser.formatted(given.source, "resolved")
    with_references = [each for each in reversed(live) if _could_be_resolved_to(each.stored.content, content)]
    for candidate in with_references[:_MOST_RESOLVED_VERSIONS]:
        try:
            if parser.formatted(source_of(candidate.stored.content, candidate.resolved), "resolved") == own:
                return candidate.stored
        except InvalidSchemaError:
            continue
    return None


def is_same(stored: Content, content: Content) -> bool:
    if stored.md5 == content.md5:
        return stored.schema_type is content.schema_type
    return (
        stored.text == content.text
        and stored.schema_type is content.schema_type
        and stored.references == content.references
        and stored.rule_set == content.rule_set
        and _without_version(stored.metadata) == _without_version(content.metadata)
    )


def _could_be_resolved_to(stored: Content, content: Content) -> bool:
    return (
        bool(stored.references)
        and stored.schema_type is content.schema_type
        and stored.rule_set == content.rule_set
        and _without_version(stored.metadata) == _without_version(content.metadata)
    )


def _without_version(metadata: Metadata | None) -> Metadata | None:
    if metadata is None:
        return None
    properties = tuple(each for each in metadata.properties if each[0] != _VERSION_PROPERTY)
    left = replace(metadata, properties=properties)
    return None if left == Metadata() else left


def content_with_contract(circumstances: Circumstances, parsed: ParsedSchema) -> Content:
    """Metadata and rules that the config gives every schema. A schema without its own keeps those of the last
    schema.
    """
    config, live = circumstances.config, circumstances.live
    content = content_as_given(circumstances.given, parsed)
    last = live[-1].stored.content if live else None
    metadata, rule_set = content.metadata, content.rule_set
    if last is not None:
        metadata = last.metadata if metadata is None else metadata
        rule_set = last.rule_set if rule_set is None else rule_set
    metadata = merged_metadata(merged_metadata(config.default_metadata, metadata), config.override_metadata)
    rule_set = merged_rule_sets(merged_rule_sets(config.default_rule_set, rule_set), config.override_rule_set)
    if metadata == content.metadata and rule_set == content.rule_set:
        return content
    return content_of(content.schema_type, content.text, content.references, metadata, rule_set)


def rules_of(config: Config) -> CompatibilityRules:
    return CompatibilityRules(
        config.compatibility_level or Level.BACKWARD,
        config.compatibility_policy or Policy.STRICT,
        config.compatibility_group,
        config.validate_fields is True,
    )


def compare(
    parsed: ParsedSchema,
    metadata: Metadata | None,
    older: Iterable[Candidate],
    rules: CompatibilityRules,
    parser: Parser,
) -> list[str]:
    versions = [
        OlderVersion(
            each.stored.version,
            each.stored.content.metadata,
            source_of(each.stored.content, each.resolved),
            parser.parse,
        )
        for each in older
    ]
    return check(parsed, metadata, versions, rules)
