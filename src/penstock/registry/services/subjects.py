"""Operations on subjects and their versions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from weakref import WeakValueDictionary

from penstock.registry.errors import StoreTimeoutError, invalid_schema, schema_not_found
from penstock.registry.model import (
    Deleted,
    Mode,
    Page,
    Rendering,
    SchemaAnswer,
    SchemaRequest,
    StoredSchema,
    TagRequest,
)
from penstock.registry.names import canonical, check_subject
from penstock.registry.operations.decision import Decision, DecisionDraft, StaleDecisionError
from penstock.registry.operations.deletion import decide_subject_deletion, decide_version_deletion
from penstock.registry.operations.lookups import (
    live_subject,
    newest_with,
    page_of,
    referring_ids,
    stored_version,
    subject_names,
    version_number,
    version_numbers,
)
from penstock.registry.operations.registration import decide_registration, is_answered
from penstock.registry.operations.request_preparation import (
    Candidate,
    Circumstances,
    Judgement,
    content_as_given,
    find,
    find_at_once,
    gather,
    judge,
    parsed_request,
)
from penstock.registry.operations.scopes import find_subject, meant_subject
from penstock.registry.services.engine import Engine
from penstock.schemas.schema import InvalidSchemaError

_PLAIN = Rendering()
_ALL = Page()
# Registrations of a subject wait for each other, so only other changes can come between: fewer than this.
_MOST_ATTEMPTS = 20


class Subjects:
    """Every `subject` is qualified (`:.context:name`), or is in the default context. Versions are as in the path: a
    number, `latest` or `-1`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = engine.state
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def names(self, prefix: str = "", *, deleted: Deleted = Deleted.LEFT_OUT, page: Page = _ALL) -> list[str]:
        """Subjects that begin with the prefix, sorted; the prefix `:*:` searches all contexts."""
        return page_of(subject_names(self._state, prefix, deleted), page)

    async def versions(
        self, subject: str, *, deleted: Deleted = Deleted.LEFT_OUT, negative: bool = False, page: Page = _ALL
    ) -> list[int]:
        """Versions in order (40401); `negative` marks soft-deleted versions with a leading minus."""
        meant = find_subject(self._state, canonical(subject), deleted=deleted is not Deleted.LEFT_OUT)
        return page_of(version_numbers(self._state, meant, deleted, negative=negative), page)

    async def version(
        self, subject: str, version: str, *, deleted: bool = False, rendering: Rendering = _PLAIN
    ) -> SchemaAnswer:
        """One version (40401, 40402, 42202)."""
        return await self._rendered(self._stored(subject, version, deleted=deleted), rendering)

    async def text(self, subject: str, version: str, *, deleted: bool = False, rendering: Rendering = _PLAIN) -> str:
        """The bare text of one version."""
        stored = self._stored(subject, version, deleted=deleted)
        return await self._engine.text(stored.content, stored.subject, rendering.format)

    async def referenced_by(self, subject: str, version: str, *, deleted: bool = False, page: Page = _ALL) -> list[int]:
        """Ids of the schemas that refer to the version."""
        stored = self._stored(subject, version, deleted=deleted)
        return page_of(referring_ids(self._state, stored.subject, stored.version, deleted=deleted), page)

    async def latest_with_metadata(
        self, subject: str, properties: Mapping[str, str], *, deleted: bool = False, rendering: Rendering = _PLAIN
    ) -> SchemaAnswer:
        """The newest version whose metadata has all these properties (40401, 40403)."""
        meant = find_subject(self._state, canonical(subject), deleted=deleted)
        stored = newest_with(live_subject(self._state, meant, deleted=deleted), properties, deleted=deleted)
        if stored is None:
            raise schema_not_found()
        return await self._rendered(stored, rendering)

    async def lookup(
        self,
        subject: str,
        request: SchemaRequest,
        *,
        normalize: bool = False,
        deleted: bool = False,
        rendering: Rendering = _PLAIN,
    ) -> SchemaAnswer:
        """The version that has this schema (40401, 40403, 42201)."""
        meant = find_subject(self._state, check_subject(subject), deleted=deleted)
        live_subject(self._state, meant, deleted=deleted)
        circumstances = self._gather(meant, request, normalize=normalize, is_new=False)
        hidden = self._hidden(meant) if deleted else ()
        stored = find_at_once(circumstances, self._engine.parser)
        if stored is None:
            stored = await self._engine.workers.run(lambda: self._find(circumstances, hidden))
        if stored is None:
            raise schema_not_found()
        return await self._rendered(stored, rendering)

    async def register(
        self,
        subject: str,
        request: SchemaRequest,
        *,
        normalize: bool = False,
        force: bool = False,
        rendering: Rendering = _PLAIN,
    ) -> SchemaAnswer:
        """The version that has this schema, created if there is none (409, 42201, 42205, 42207, 42208, 42209,
        42210).
        """
        meant = meant_subject(self._state, check_subject(subject))
        return await self._rendered(await self._register_in_turn(meant, request, normalize=normalize), rendering)

    async def delete(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Deletes all versions and returns their numbers (40401, 40404, 40405, 42205, 42206)."""
        meant = meant_subject(self._state, canonical(subject))
        return await self._engine.writer.submit(
            lambda _: decide_subject_deletion(self._state, meant, permanent=permanent)
        )

    async def delete_version(self, subject: str, version: str, *, permanent: bool = False) -> int:
        """Deletes one version and returns its number (40401, 40402, 40406, 40407, 42202, 42205, 42206)."""
        meant = meant_subject(self._state, canonical(subject))
        number = version_number(version)
        return await self._engine.writer.submit(
            lambda _: decide_version_deletion(self._state, meant, number, permanent=permanent)
        )

    async def change_tags(self, subject: str, version: str, request: TagRequest) -> SchemaAnswer:
        """Registers the version once more with other inline tags (40401, 40402, 42201, 42205)."""
        stored = self._stored(subject, version, deleted=False)
        content = stored.content
        tagged = SchemaRequest(
            content.text,
            str(content.schema_type),
            content.references,
            content.metadata if request.metadata is None else request.metadata,
            content.rule_set if request.rule_set is None else request.rule_set,
            request.new_version,
            tags_to_add=request.tags_to_add,
            tags_to_remove=request.tags_to_remove,
        )
        # The subject was found already: an alias of its own is not followed.
        return await self._rendered(await self._register_in_turn(stored.subject, tagged, normalize=False), _PLAIN)

    def _stored(self, subject: str, version: str, *, deleted: bool) -> StoredSchema:
        number = version_number(version)
        meant = find_subject(self._state, canonical(subject), deleted=deleted)
        return stored_version(self._state, meant, number, deleted=deleted)

    async def _rendered(self, stored: StoredSchema, rendering: Rendering) -> SchemaAnswer:
        content = stored.content
        text = await self._engine.text(content, stored.subject, rendering.format)
        references = self._engine.references(content, stored.subject, rendering)
        return SchemaAnswer(stored, text, references, await self._engine.tags(content, stored.subject, rendering))

    async def _register_in_turn(self, subject: str, request: SchemaRequest, *, normalize: bool) -> StoredSchema:
        turn = self._turns.setdefault(subject, asyncio.Lock())
        async with turn:
            return await self._register(subject, request, normalize=normalize)

    async def _register(self, subject: str, request: SchemaRequest, *, normalize: bool) -> StoredSchema:
        for _ in range(_MOST_ATTEMPTS):
            circumstances = self._gather(subject, request, normalize=normalize, is_new=True)
            judgement = await self._judge(circumstances)
            if judgement.existing is not None and is_answered(circumstances, judgement):
                return judgement.existing
            decide = partial(self._decide, request, circumstances, judgement, normalize=normalize)
            # Ids that callers choose are handled one by one.
            shared = None if circumstances.mode is Mode.IMPORT else subject
            try:
                return await self._engine.writer.submit(decide, shared)
            except StaleDecisionError:
                continue
        raise StoreTimeoutError(f"Subject '{subject}' changes faster than schemas can be compared")

    def _decide(
        self,
        request: SchemaRequest,
        before: Circumstances,
        judgement: Judgement,
        draft: DecisionDraft,
        *,
        normalize: bool,
    ) -> Decision[StoredSchema]:
        now = self._gather(before.given.subject, request, normalize=normalize, is_new=True)
        if now != before:
            raise StaleDecisionError
        return decide_registration(self._state, draft, now, judgement)

    async def _judge(self, circumstances: Circumstances) -> Judgement:
        existing = find_at_once(circumstances, self._engine.parser)
        if existing is not None:
            return Judgement(existing, existing.content)
        return await self._engine.workers.run(lambda: judge(circumstances, self._engine.parser))

    def _gather(self, subject: str, request: SchemaRequest, *, normalize: bool, is_new: bool) -> Circumstances:
        level = self._engine.default_level
        try:
            return gather(self._state, subject, request, level, normalize=normalize, is_new=is_new)
        except InvalidSchemaError as error:
            raise invalid_schema(str(error)) from None

    def _hidden(self, subject: str) -> tuple[Candidate, ...]:
        versions = self._state.subject(subject)
        every = () if versions is None else versions.oldest_first(deleted=True)
        return tuple(Candidate(stored, ()) for stored in every if stored.deleted)

    def _find(self, circumstances: Circumstances, hidden: tuple[Candidate, ...]) -> StoredSchema | None:
        """Live versions first."""
        given, parser = circumstances.given, self._engine.parser
        content = content_as_given(given, parsed_request(given, parser))
        found = find(content, given, circumstances.live, parser)
        return found if found is not None or not hidden else find(content, given, hidden, parser)
