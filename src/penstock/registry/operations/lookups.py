"""Reads: versions, subjects and ids in the state."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar
from uuid import UUID

from penstock.registry.errors import (
    invalid_version,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from penstock.registry.model import Content, ContextId, Deleted, Page, StoredSchema
from penstock.registry.names import DEFAULT_CONTEXT, EVERY_CONTEXT, context_of, join, split
from penstock.registry.operations.scopes import find_subject
from penstock.registry.state import State
from penstock.registry.tables import Named, SubjectVersions
from penstock.schemas.schema import RuleSet

LATEST = -1
_HIGHEST_VERSION = (1 << 31) - 1
_NUMBER = re.compile(r"[0-9]{1,10}")

_Item = TypeVar("_Item")


def version_number(text: str) -> int:
    """`LATEST`, or a number from 1 on (42202)."""
    if text in ("latest", "-1"):
        return LATEST
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= _HIGHEST_VERSION:
        raise invalid_version(text)
    return int(text)


def find_version(versions: SubjectVersions, version: int, *, deleted: bool) -> StoredSchema | None:
    if version == LATEST:
        return versions.latest(deleted=deleted)
    stored = versions.get(version)
    return None if stored is None or (stored.deleted and not deleted) else stored


def stored_version(state: State, subject: str, version: int, *, deleted: bool) -> StoredSchema:
    """40401 if the subject has no visible version, 40402 if it does not have this version."""
    versions = live_subject(state, subject, deleted=deleted)
    stored = find_version(versions, version, deleted=deleted)
    if stored is None:
        raise version_not_found("latest" if version == LATEST else version)
    return stored


def live_subject(state: State, subject: str, *, deleted: bool) -> SubjectVersions:
    versions = state.subject(subject)
    if versions is None or not (deleted or versions.live_count):
        raise subject_not_found(subject)
    return versions


def version_numbers(state: State, subject: str, deleted: Deleted, *, negative: bool) -> list[int]:
    versions = live_subject(state, subject, deleted=deleted is not Deleted.LEFT_OUT)
    found = [
        -stored.version if negative and stored.deleted else stored.version
        for stored in versions.oldest_first(deleted=deleted is not Deleted.LEFT_OUT)
        if stored.deleted or deleted is not Deleted.ONLY
    ]
    if not found:
        raise subject_not_found(subject)
    return found


def newest_with(versions: SubjectVersions, properties: Mapping[str, str], *, deleted: bool) -> StoredSchema | None:
    for stored in versions.newest_first(deleted=deleted):
        metadata = stored.content.metadata
        if properties.items() <= dict(() if metadata is None else metadata.properties).items():
            return stored
    return None


def subject_names(state: State, prefix: str, deleted: Deleted) -> Iterator[str]:
    """Subjects in order. A prefix with a context selects that context; a prefix without selects the default context."""
    for context, start in _contexts_of_prefix(state, prefix):
        schemas = state.contexts.get(context)
        if schemas is None:
            continue
        names = schemas.names()
        for position in range(bisect_left(names, start), len(names)):
            name = names[position]
            if not name.startswith(start):
                break
            if _is_shown(schemas.subjects[name], deleted):
                yield name


def _contexts_of_prefix(state: State, prefix: str) -> list[tuple[str, str]]:
    """The contexts to search, and the prefix of subjects there."""
    if prefix.startswith(EVERY_CONTEXT):
        rest = prefix.removeprefix(EVERY_CONTEXT)
        return [(context, join(context, rest)) for context in sorted(state.contexts)]
    context, name = split(prefix)
    return [(context, join(context, name))]


def _is_shown(versions: SubjectVersions, deleted: Deleted) -> bool:
    if deleted is Deleted.INCLUDED:
        return True
    return (versions.live_count == 0) == (deleted is Deleted.ONLY)


def named_by_id(state: State, schema_id: int, subject: str) -> tuple[str, Named]:
    """The context, and the schema of the id there (40403).

    `subject` names the context, or is a subject in it. A subject without a context that is in another context than the
    default context is searched there.
    """
    context = context_of(subject)
    if subject and context == DEFAULT_CONTEXT and split(subject).name:
        found = context_of(find_subject(state, subject, deleted=True))
        named = _named(state, found, schema_id)
        if named is not None:
            return found, named
    named = _named(state, context, schema_id)
    if named is None:
        raise schema_not_found(str(schema_id))
    return context, named


def _named(state: State, context: str, schema_id: int) -> Named | None:
    schemas = state.contexts.get(context)
    return None if schemas is None else schemas.named(schema_id)


def versions_of(state: State, named: Named, *, deleted: bool) -> list[StoredSchema]:
    found = (state.stored(key.subject, key.version) for key in named.users())
    return [stored for stored in found if stored is not None and (deleted or not stored.deleted)]


def version_told(
    state: State, named: Named, subject: str, is_shown: Callable[[str], bool] | None
) -> StoredSchema | None:
    """The version in an answer about an id when the request had a subject: the subject's own, otherwise any with the
    id. Live versions come first. None where the request had no subject, or the caller may see none of them.
    """
    if not subject:
        return None
    shown = [each for each in versions_of(state, named, deleted=True) if is_shown is None or is_shown(each.subject)]
    name = split(subject).name
    own = [each for each in shown if split(each.subject).name == name]
    return min(own or shown, key=lambda each: (each.deleted, each.subject, -each.version), default=None)


def by_guid(state: State, guid: str) -> tuple[Content, list[ContextId]]:
    """The content of the guid, and its ids by context (40403)."""
    try:
        md5 = UUID(guid).bytes
    except ValueError:
        raise schema_not_found(guid) from None
    content = state.content(md5)
    if content is None:
        raise schema_not_found(guid)
    ids = ((context, state.contexts[context].id_of(content)) for context in sorted(state.contexts))
    return content, [ContextId(context, schema_id) for context, schema_id in ids if schema_id is not None]


def referring_ids(state: State, subject: str, version: int, *, deleted: bool) -> list[int]:
    found = (state.stored(key.subject, key.version) for key in state.referrers(subject, version))
    return sorted({stored.id for stored in found if stored is not None and (deleted or not stored.deleted)})


def has_rules_of_type(rule_set: RuleSet | None, rule_type: str) -> bool:
    if rule_set is None:
        return False
    rules = (*rule_set.migration_rules, *rule_set.domain_rules, *rule_set.encoding_rules)
    return any(rule.type == rule_type for rule in rules)


def page_of(items: Sequence[_Item] | Iterator[_Item], page: Page, most: int | None = None) -> list[_Item]:
    """The requested part of the list. A negative offset counts as none."""
    start = max(page.offset, 0)
    limit = page.limit if page.limit >= 0 else None
    if most is not None:
        limit = most if limit is None else min(limit, most)
    return list(islice(items, start, None if limit is None else start + limit))
