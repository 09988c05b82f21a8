"""The state of the registry, and its changes by records of the log.

Rules:
- The state changes in `replay` alone, record by record in the order of the log, on every instance alike.
- A SCHEMA record whose id already names another text is not applied. Its key is noted as a repair: the leader writes
  the old value back.
- Content is kept once, however many subjects and contexts have it.
- Ids are counted per context. The highest id that the log ever showed is remembered, also after its schema is gone.
- A key that was spelt unlike ours is remembered with its spelling, because the log cleaner takes it for another key:
  `records_for` removes such spellings before it writes ours.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from penstock.registry.log import LogRecord
from penstock.registry.model import Config, Content, Mode, StoredSchema, key_of
from penstock.registry.names import DEFAULT_CONTEXT, beside, context_of
from penstock.registry.records import (
    NOOP,
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    Key,
    ModeKey,
    NoopKey,
    OtherKey,
    SchemaKey,
    UnreadableRecordError,
    context_key,
    decode_config,
    decode_delete_subject,
    decode_key,
    decode_mode,
    decode_noop,
    decode_schema,
    encode_key,
    encode_noop,
    encode_schema,
)
from penstock.registry.tables import ContextSchemas, SubjectVersions
from penstock.schemas.schema import SchemaType

_logger = logging.getLogger(__name__)
# More wrong records than this are the work of a second writer that goes on: they are left as they are.
_MOST_REPAIRS = 1_000


class State:
    """The content of the log. Changes in `replay` alone, on the loop."""

    def __init__(self) -> None:
        # Grows with every record: a result computed at one revision holds while the revision stays.
        self.revision = 0
        # Records that could not be read.
        self.skipped_records = 0
        # The position behind the last replayed record.
        self.next_offset = 0
        # The highest id that each context ever gave, as far as the log shows.
        self.highest_ids: dict[str, int] = {}
        self.configs: dict[str, Config] = {}
        self.modes: dict[str, Mode] = {}
        self.contexts: dict[str, ContextSchemas] = {}
        self._declared: set[str] = set()
        self._contents: dict[bytes, Content] = {}
        self._referrers: dict[SchemaKey, set[SchemaKey]] = {}
        self._spellings: dict[Key, set[bytes]] = {}
        self._repairs: dict[SchemaKey, bytes | None] = {}
        self._last_noop: bytes | None = None

    # Queries

    def subject(self, subject: str) -> SubjectVersions | None:
        context = self.contexts.get(context_of(subject))
        return None if context is None else context.subjects.get(subject)

    def stored(self, subject: str, version: int) -> StoredSchema | None:
        versions = self.subject(subject)
        return None if versions is None else versions.get(version)

    def content(self, md5: bytes) -> Content | None:
        """The content with this fingerprint, which is also its guid."""
        found = (self._contents.get(key_of(schema_type, md5)) for schema_type in SchemaType)
        return next((content for content in found if content is not None), None)

    def context_names(self) -> list[str]:
        """Contexts that have a subject, or were declared. The default one is always there."""
        return sorted({DEFAULT_CONTEXT, *self.contexts, *self._declared})

    def is_declared(self, context: str) -> bool:
        return context in self._declared

    def highest_id(self, context: str) -> int:
        return self.highest_ids.get(context, 0)

    def referrers(self, subject: str, version: int) -> set[SchemaKey]:
        """Versions that refer to this one, soft-deleted ones among them."""
        found = self._referrers.get(SchemaKey(subject, version), set())
        latest = self._referrers.get(SchemaKey(subject, -1))
        return found if latest is None else found | latest

    def overdue(self) -> list[LogRecord]:
        """The records that the leader writes before all others: old values over records that were not applied, and
        removed ids, if the last NOOP lacks them. NOOPs of other registries have no ids.
        """
        records = [record for key, value in self._repairs.items() for record in self.records_for(key, value)]
        noop = self.noop()
        return records if noop.value == self._last_noop else [*records, noop]

    def records_for(self, key: Key, value: bytes | None) -> list[LogRecord]:
        """Records that give the key this value, whatever spellings of the key are in the log."""
        ours = encode_key(key)
        others = sorted(self._spellings.get(key, ()))
        return [*(LogRecord(spelling, None) for spelling in others), LogRecord(ours, value)]

    def noop(self, also_gone: Mapping[str, int] = MappingProxyType({})) -> LogRecord:
        """The record by which a new leader learns the end of the log. It keeps removed ids, see `encode_noop`."""
        gone = {
            context: schema_id
            for context, schema_id in self.highest_ids.items()
            if context not in self.contexts or self.contexts[context].named(schema_id) is None
        }
        return LogRecord(encode_key(NOOP), encode_noop({**gone, **also_gone}))

    # Changes

    def replay(self, key: bytes, value: bytes | None, offset: int) -> None:
        """Applies one record. An unreadable record is skipped and counted."""
        self.revision += 1
        self.next_offset = offset + 1
        try:
            self._apply(decode_key(key), value, key)
        except (UnreadableRecordError, UnicodeEncodeError) as error:
            self.skipped_records += 1
            # The first ones only: a topic that is none of ours may have millions.
            if self.skipped_records <= 10:
                _logger.warning("skipped a record", extra={"offset": offset, "reason": str(error)})

    def _apply(self, key: Key, value: bytes | None, spelling: bytes) -> None:
        if isinstance(key, OtherKey):
            return
        self._note_spelling(key, spelling, is_gone=value is None)
        match key:
            case SchemaKey():
                self._apply_schema(key, value)
            case NoopKey():
                self._apply_noop(value)
            case ConfigKey(scope):
                _set(self.configs, scope, None if value is None else decode_config(value))
            case ModeKey(scope):
                _set(self.modes, scope, None if value is None else decode_mode(value))
            case ContextKey(_, context):
                if key == context_key(context):
                    (self._declared.discard if value is None else self._declared.add)(context)
            # A record of these two kinds acts once. Its removal means nothing.
            case DeleteSubjectKey(subject):
                if value is not None:
                    self._soft_delete(subject, decode_delete_subject(value))
            case ClearSubjectKey(subject):
                if value is not None:
                    self._clear(subject)

    def _apply_noop(self, value: bytes | None) -> None:
        self._last_noop = value
        for context, schema_id in ({} if value is None else decode_noop(value)).items():
            self._saw_id(context, schema_id)

    def _note_spelling(self, key: Key, spelling: bytes, *, is_gone: bool) -> None:
        if spelling == encode_key(key):
            return
        spellings = self._spellings.setdefault(key, set())
        if is_gone:
            spellings.discard(spelling)
            if not spellings:
                del self._spellings[key]
        else:
            spellings.add(spelling)

    def _apply_schema(self, key: SchemaKey, value: bytes | None) -> None:
        context_name = context_of(key.subject)
        context = self.contexts.get(context_name)
        if value is None:
            self._repairs.pop(key, None)
            if context is not None:
                self._remove(context_name, context, key)
            return
        schema = decode_schema(value)
        self._saw_id(context_name, schema.id)
        if context is None:
            context = self.contexts[context_name] = ContextSchemas()
        named = context.named(schema.id)
        if named is not None and named.content.text != schema.content.text:
            self._note_repair(key)
            return
        self._repairs.pop(key, None)
        content = self._contents.setdefault(schema.content.key, schema.content)
        self._put(context, StoredSchema(key.subject, key.version, schema.id, content, schema.deleted))

    def _put(self, context: ContextSchemas, stored: StoredSchema) -> None:
        old = context.put(stored)
        if old is not None and old.content is stored.content:
            return
        key = SchemaKey(stored.subject, stored.version)
        if old is not None:
            self._forget_content(old, key)
        for reference in stored.content.references:
            referred = SchemaKey(beside(stored.subject, reference.subject), reference.version)
            self._referrers.setdefault(referred, set()).add(key)

    def _remove(self, context_name: str, context: ContextSchemas, key: SchemaKey) -> None:
        old = context.remove(key)
        if old is None:
            return
        self._forget_content(old, key)
        if not context.subjects:
            del self.contexts[context_name]

    def _forget_content(self, old: StoredSchema, key: SchemaKey) -> None:
        for reference in old.content.references:
            referred = SchemaKey(beside(old.subject, reference.subject), reference.version)
            referrers = self._referrers.get(referred)
            if referrers is not None:
                referrers.discard(key)
                if not referrers:
                    del self._referrers[referred]
        if not any(context.has(old.content) for context in self.contexts.values()):
            self._contents.pop(old.content.key, None)

    def _note_repair(self, key: SchemaKey) -> None:
        _logger.error("a record names an id of another schema", extra={"subject": key.subject, "version": key.version})
        if len(self._repairs) < _MOST_REPAIRS:
            old = self.stored(key.subject, key.version)
            self._repairs[key] = None if old is None else encode_schema(old)

    def _soft_delete(self, subject: str, up_to: int) -> None:
        versions = self.subject(subject)
        if versions is None:
            return
        for stored in list(versions.oldest_first()):
            if stored.version <= up_to:
                versions.put(replace(stored, deleted=True))

    def _clear(self, subject: str) -> None:
        """Removes soft-deleted versions: Confluent's record of a subject's permanent deletion."""
        context_name = context_of(subject)
        context = self.contexts.get(context_name)
        versions = self.subject(subject)
        if context is None or versions is None:
            return
        for stored in list(versions.oldest_first(deleted=True)):
            if stored.deleted:
                self._remove(context_name, context, SchemaKey(subject, stored.version))

    def _saw_id(self, context: str, schema_id: int) -> None:
        if schema_id > self.highest_ids.get(context, 0):
            self.highest_ids[context] = schema_id


_Value = TypeVar("_Value")


def _set(table: dict[str, _Value], scope: str, value: _Value | None) -> None:
    if value is None:
        table.pop(scope, None)
    else:
        table[scope] = value
