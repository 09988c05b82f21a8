"""Deletion of versions, subjects and contexts.

Soft deletion hides; ids still resolve. Permanent deletion needs a soft one first. A version that a live schema refers
to is not hidden, and one that any schema refers to is not removed. A subject that is deleted as a whole takes its own
references along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.registry.errors import (
    RegistryError,
    context_not_empty,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from penstock.registry.log import LogRecord
from penstock.registry.model import StoredSchema
from penstock.registry.names import DEFAULT_CONTEXT, context_of, scope_of
from penstock.registry.operations.decision import Decision
from penstock.registry.operations.lookups import LATEST, find_version
from penstock.registry.operations.scopes import check_writable
from penstock.registry.records import (
    ConfigKey,
    DeleteSubjectKey,
    ModeKey,
    SchemaKey,
    context_key,
    encode_delete_subject,
    encode_schema,
)
from penstock.registry.state import State


def decide_subject_deletion(state: State, subject: str, *, permanent: bool) -> Decision[list[int]]:
    check_writable(state, subject)
    versions = state.subject(subject)
    if versions is None:
        raise subject_not_found(subject)
    if permanent and versions.live_count:
        raise subject_not_soft_deleted(subject)
    if not permanent and not versions.live_count:
        raise subject_soft_deleted(subject)
    doomed = list(versions.oldest_first(deleted=permanent))
    for stored in doomed:
        _check_unreferenced(state, stored, permanent=permanent, apart_from=subject)
    if permanent:
        records = _removal(state, doomed)
    else:
        up_to = encode_delete_subject(subject, doomed[-1].version)
        records = [*state.records_for(DeleteSubjectKey(subject), up_to), *_settings_removal(state, subject)]
    numbers = [stored.version for stored in doomed]
    return Decision(tuple(records), lambda: numbers)


def decide_version_deletion(state: State, subject: str, version: int, *, permanent: bool) -> Decision[int]:
    """`version` may be `LATEST`: the last of those that can be deleted in this way."""
    check_writable(state, subject)
    versions = state.subject(subject)
    if versions is None:
        raise subject_not_found(subject)
    stored = find_version(versions, version, deleted=permanent or version != LATEST)
    if stored is None:
        raise version_not_found("latest" if version == LATEST else version)
    if permanent and not stored.deleted:
        raise version_not_soft_deleted(subject, stored.version)
    if not permanent and stored.deleted:
        raise version_soft_deleted(subject, stored.version)
    _check_unreferenced(state, stored, permanent=permanent)
    if permanent:
        records = _removal(state, [stored])
    else:
        hidden = encode_schema(replace(stored, deleted=True))
        records = state.records_for(SchemaKey(subject, stored.version), hidden)
        if versions.live_count == 1:
            records += _settings_removal(state, subject)
    return Decision(tuple(records), lambda: stored.version)


def decide_context_deletion(state: State, context: str) -> Decision[None]:
    """The config and mode of an empty context are deleted with it. The default context is permanent."""
    check_writable(state, scope_of(context))
    if context == DEFAULT_CONTEXT or context in state.contexts:
        raise context_not_empty(context)
    records: list[LogRecord] = []
    if state.is_declared(context):
        records += state.records_for(context_key(context), None)
    records += _settings_removal(state, scope_of(context))
    return Decision(tuple(records), lambda: None)


def _check_unreferenced(state: State, stored: StoredSchema, *, permanent: bool, apart_from: str = "") -> None:
    for key in state.referrers(stored.subject, stored.version):
        if key.subject == apart_from:
            continue
        referrer = state.stored(key.subject, key.version)
        if referrer is not None and (permanent or not referrer.deleted):
            raise _referenced(stored)


def _referenced(stored: StoredSchema) -> RegistryError:
    return reference_exists(f"{{magic=1,keytype=SCHEMA,subject={stored.subject},version={stored.version}}}")


def _removal(state: State, doomed: Sequence[StoredSchema]) -> list[LogRecord]:
    """Tombstones; for the last version of a subject also for the subject's other records."""
    subject = doomed[0].subject
    records = [record for stored in doomed for record in state.records_for(SchemaKey(subject, stored.version), None)]
    versions = state.subject(subject)
    if versions is not None and len(versions) == len(doomed):
        records += state.records_for(DeleteSubjectKey(subject), None)
        records += _settings_removal(state, subject)
    return [*records, *_kept_highest_id(state, context_of(subject), doomed)]


def _kept_highest_id(state: State, context: str, doomed: Iterable[StoredSchema]) -> list[LogRecord]:
    """The highest id of the context is recorded before its schema is removed: compaction would make it free again."""
    highest = state.highest_id(context)
    named = state.contexts[context].named(highest)
    if named is None:
        return []
    gone = {SchemaKey(stored.subject, stored.version) for stored in doomed}
    return [state.noop({context: highest})] if gone.issuperset(named.users()) else []


def _settings_removal(state: State, scope: str) -> list[LogRecord]:
    records: list[LogRecord] = []
    if scope in state.configs:
        records += state.records_for(ConfigKey(scope), None)
    if scope in state.modes:
        records += state.records_for(ModeKey(scope), None)
    return records
