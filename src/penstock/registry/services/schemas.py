"""Operations on schemas by their identifiers: ids within a context, and guids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

from penstock.registry.model import (
    Content,
    ContentAnswer,
    ContextId,
    Deleted,
    Page,
    Rendering,
    SchemaAnswer,
    StoredSchema,
    SubjectVersion,
)
from penstock.registry.names import beside, scope_of
from penstock.registry.operations.lookups import (
    by_guid,
    has_rules_of_type,
    named_by_id,
    page_of,
    subject_names,
    version_told,
    versions_of,
)
from penstock.registry.services.engine import Engine
from penstock.schemas.schema import SchemaType

_PLAIN = Rendering()
_ALL = Page()
# The limits of one answer: the number of schemas, and the size of their text, unless it is a single schema.
_MOST_SCHEMAS = 1_000
_MOST_CHARACTERS = 64 << 20
# The number of subjects between two turns of other work: a millisecond or two.
_SLICE = 1_000


class Schemas:
    """`subject` names the context of an id: `:.context:`, or a subject in it. A subject without a context is searched
    in all contexts; without a subject, an id is an id of the default context.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = engine.state

    async def search(
        self,
        prefix: str = "",
        *,
        aliases: bool = False,
        deleted: bool = False,
        latest_only: bool = False,
        rule_type: str = "",
        page: Page = _ALL,
        is_shown: Callable[[str], bool] | None = None,
    ) -> list[SchemaAnswer]:
        """Versions of subjects that begin with the prefix, at most 1,000 and 64 MiB. `rule_type`: those with such
        rules. `is_shown` selects the subjects that the caller may see: others are ignored.

        `aliases`: also the subjects behind aliases that begin with the prefix; answers name the aliases.
        """
        by_subject = self._aliases() if aliases else {}
        most = min(page.limit, _MOST_SCHEMAS) if page.limit >= 0 else _MOST_SCHEMAS
        found: list[SchemaAnswer] = []
        size = seen = 0
        for number, subject in enumerate(self._subjects(prefix, by_subject, deleted=deleted), start=1):
            if number % _SLICE == 0:
                await asyncio.sleep(0)
            if is_shown is not None and not is_shown(subject):
                continue
            names = tuple(by_subject.get(subject, ()))
            for stored in self._versions(subject, deleted=deleted, latest_only=latest_only):
                if rule_type and not has_rules_of_type(stored.content.rule_set, rule_type):
                    continue
                seen += 1
                if seen <= page.offset:
                    continue
                content = stored.content
                size += len(content.text)
                if len(found) >= most or (found and size > _MOST_CHARACTERS):
                    return found
                found.append(SchemaAnswer(stored, content.text, content.references, aliases=names))
        return found

    async def types(self) -> list[str]:
        """The formats."""
        return [SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO]

    async def by_id(
        self,
        schema_id: int,
        *,
        subject: str = "",
        rendering: Rendering = _PLAIN,
        fetch_max_id: bool = False,
        is_shown: Callable[[str], bool] | None = None,
    ) -> ContentAnswer:
        """The schema of the id (40403); with a subject also a version that has it, of a subject that the caller may
        see.
        """
        context, named = named_by_id(self._state, schema_id, subject)
        max_id = self._state.highest_id(context) if fetch_max_id else None
        told = version_told(self._state, named, subject, is_shown)
        return replace(await self._rendered(named.content, context, rendering, max_id), told=told)

    async def text_by_id(self, schema_id: int, *, subject: str = "", rendering: Rendering = _PLAIN) -> str:
        """The bare text of the schema with the id (40403)."""
        context, named = named_by_id(self._state, schema_id, subject)
        return await self._engine.text(named.content, scope_of(context), rendering.format)

    async def subjects_by_id(
        self, schema_id: int, *, subject: str = "", deleted: bool = False, page: Page = _ALL
    ) -> list[str]:
        """Subjects that have a version with the id (40403)."""
        _, named = named_by_id(self._state, schema_id, subject)
        found = dict.fromkeys(stored.subject for stored in versions_of(self._state, named, deleted=deleted))
        return page_of(list(found), page)

    async def versions_by_id(
        self, schema_id: int, *, subject: str = "", deleted: bool = False, page: Page = _ALL
    ) -> list[SubjectVersion]:
        """Versions with the id (40403)."""
        _, named = named_by_id(self._state, schema_id, subject)
        found = versions_of(self._state, named, deleted=deleted)
        return page_of([SubjectVersion(stored.subject, stored.version) for stored in found], page)

    async def by_guid(self, guid: str, *, rendering: Rendering = _PLAIN) -> ContentAnswer:
        """The schema with the guid, in any context (40403)."""
        content, ids = by_guid(self._state, guid)
        return await self._rendered(content, ids[0].context, rendering, None)

    async def ids_by_guid(self, guid: str) -> list[ContextId]:
        """The ids of the schema, one for each context that has it (40403)."""
        return by_guid(self._state, guid)[1]

    async def _rendered(
        self, content: Content, context: str, rendering: Rendering, max_id: int | None
    ) -> ContentAnswer:
        scope = scope_of(context)
        text = await self._engine.text(content, scope, rendering.format)
        references = self._engine.references(content, scope, rendering)
        return ContentAnswer(content, text, references, await self._engine.tags(content, scope, rendering), max_id)

    def _aliases(self) -> dict[str, list[str]]:
        """Subjects, and their aliases."""
        aliases: dict[str, list[str]] = {}
        for scope, config in sorted(self._state.configs.items()):
            if config.alias:
                aliases.setdefault(beside(scope, config.alias), []).append(scope)
        return aliases

    def _subjects(self, prefix: str, aliases: dict[str, list[str]], *, deleted: bool) -> Iterator[str]:
        shown = Deleted.INCLUDED if deleted else Deleted.LEFT_OUT
        names = list(subject_names(self._state, prefix, shown))
        meant = {each for each, others in aliases.items() if any(other.startswith(prefix) for other in others)}
        yield from names
        yield from sorted(meant.difference(names))

    def _versions(self, subject: str, *, deleted: bool, latest_only: bool) -> Iterator[StoredSchema]:
        versions = self._state.subject(subject)
        if versions is None:
            return
        if latest_only:
            latest = versions.latest(deleted=deleted)
            if latest is not None:
                yield latest
            return
        yield from versions.oldest_first(deleted=deleted)
