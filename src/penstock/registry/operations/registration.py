"""The second half of register: ids, versions and records, decided on the loop when it is this request's turn."""

from __future__ import annotations

from penstock.registry.errors import (
    RegistryError,
    StoreError,
    id_does_not_match,
    incompatible_schema,
    invalid_rule_set,
    invalid_schema,
    operation_not_permitted,
    schema_too_large,
)
from penstock.registry.log import LogRecord
from penstock.registry.model import Mode, StoredSchema
from penstock.registry.names import DEFAULT_CONTEXT, context_of, split
from penstock.registry.operations.decision import HIGHEST_NUMBER, Decision, DecisionDraft
from penstock.registry.operations.request_preparation import Circumstances, Judgement
from penstock.registry.operations.scopes import is_read_only, read_only
from penstock.registry.records import SchemaKey, context_key, encode_context, encode_schema
from penstock.registry.state import State
from penstock.schemas.contracts import check_rule_set
from penstock.schemas.schema import InvalidSchemaError

# Key, value and the frame around them have to fit into a batch of max.message.bytes, which is 1,048,588 by default.
MOST_RECORD_BYTES = 1_000_000
# The next schema gets the id, or the version, after the highest: an import leaves room for a million more.
_HIGHEST_IMPORTED = HIGHEST_NUMBER - 1_000_000


def is_answered(circumstances: Circumstances, judgement: Judgement) -> bool:
    """Whether the existing version is the answer. Only imports choose ids and versions."""
    existing, request = judgement.existing, circumstances.given.request
    if existing is None or (0 < request.id != existing.id):
        return False
    return circumstances.mode is not Mode.IMPORT or request.version <= 0 or request.version == existing.version


def decide_registration(
    state: State, draft: DecisionDraft, circumstances: Circumstances, judgement: Judgement
) -> Decision[StoredSchema]:
    """The records for a schema that no live version has. The circumstances are those of this moment."""
    request = circumstances.given.request
    _check_mode(circumstances)
    if judgement.messages:
        raise incompatible_schema(judgement.messages)
    _check_rules(circumstances, judgement)
    if circumstances.mode is Mode.IMPORT:
        stored = _imported(state, draft, circumstances, judgement)
    else:
        stored = _next_version(state, draft, circumstances, judgement)
        if 0 < request.version != stored.version:
            raise invalid_schema(f"Version is not one more than previous version {stored.version - 1}")
    records = _records(state, stored)
    return Decision(tuple(records), lambda: _written(state, stored))


def _check_mode(circumstances: Circumstances) -> None:
    context, name = split(circumstances.given.subject)
    where = f"Subject '{name}' in context '{context}'"
    if is_read_only(circumstances.mode):
        raise read_only(circumstances.given.subject)
    has_id = circumstances.given.request.id > 0
    if has_id and circumstances.mode is not Mode.IMPORT:
        raise operation_not_permitted(f"{where} is not in import mode")
    if not has_id and circumstances.mode is Mode.IMPORT:
        raise operation_not_permitted(f"{where} is not in read-write mode: in import mode, schemas come with their ids")


def _check_rules(circumstances: Circumstances, judgement: Judgement) -> None:
    if judgement.content.rule_set is None or circumstances.config.validate_rules is False:
        return
    try:
        check_rule_set(judgement.content.rule_set)
    except InvalidSchemaError as error:
        raise invalid_rule_set(str(error)) from None


def _next_version(
    state: State, draft: DecisionDraft, circumstances: Circumstances, judgement: Judgement
) -> StoredSchema:
    subject = circumstances.given.subject
    versions = state.subject(subject)
    version = (versions.highest if versions else 0) + 1
    if version > HIGHEST_NUMBER:
        raise StoreError(f"The versions of subject '{subject}' have run out")
    return StoredSchema(subject, version, draft.id_of(context_of(subject), judgement.content), judgement.content)


def _imported(state: State, draft: DecisionDraft, circumstances: Circumstances, judgement: Judgement) -> StoredSchema:
    """Ids and versions as given. An existing id or version does not change."""
    request, subject = circumstances.given.request, circumstances.given.subject
    context = context_of(subject)
    schemas = state.contexts.get(context)
    named = None if schemas is None else schemas.named(request.id)
    if named is not None and named.content.text != judgement.content.text:
        raise id_does_not_match(f"Overwrite new schema with id {request.id} is not permitted.")
    versions = state.subject(subject)
    version = request.version if request.version > 0 else (versions.highest if versions else 0) + 1
    old = None if versions is None else versions.get(version)
    if old is not None and (old.id != request.id or old.content.text != judgement.content.text):
        raise id_does_not_match(f"Overwrite of version {version} of subject '{subject}' is not permitted.")
    if named is None and request.id > _HIGHEST_IMPORTED:
        raise operation_not_permitted(f"Id {request.id} is above {_HIGHEST_IMPORTED}, and would leave too few ids")
    if old is None and version > _HIGHEST_IMPORTED:
        raise operation_not_permitted(
            f"Version {version} is above {_HIGHEST_IMPORTED}, and would leave too few versions"
        )
    draft.use_id(context, request.id)
    return StoredSchema(subject, version, request.id, judgement.content)


def _records(state: State, stored: StoredSchema) -> list[LogRecord]:
    records: list[LogRecord] = []
    context = context_of(stored.subject)
    if context != DEFAULT_CONTEXT and not state.is_declared(context):
        key = context_key(context)
        records += state.records_for(key, encode_context(key))
    value = _encoded(stored)
    records += state.records_for(SchemaKey(stored.subject, stored.version), value)
    versions = state.subject(stored.subject)
    for old in () if versions is None else versions.oldest_first(deleted=True):
        # A soft-deleted schema has come back under a new number. Its references to the old number still need it.
        came_back = old.deleted and old.id == stored.id and old.version != stored.version
        if came_back and not state.referrers(old.subject, old.version):
            records += state.records_for(SchemaKey(old.subject, old.version), None)
    return records


def _encoded(stored: StoredSchema) -> bytes:
    try:
        value = encode_schema(stored)
    except UnicodeEncodeError:
        raise invalid_schema("A name has half of a surrogate pair, which no UTF-8 text can have") from None
    if len(value) > MOST_RECORD_BYTES:
        raise schema_too_large(f"The schema takes {len(value)} bytes, and a record has {MOST_RECORD_BYTES} at most")
    return value


def _written(state: State, stored: StoredSchema) -> StoredSchema:
    """The version in the log. Another program may have written it in between, though none should."""
    found = state.stored(stored.subject, stored.version)
    if found is None or found.id != stored.id or found.content.text != stored.content.text:
        raise _lost()
    return found


def _lost() -> RegistryError:
    return StoreError("Another writer has taken the id or the version that was chosen; try again")
