"""Operations that check whether the registry would accept a schema, and change nothing."""

from __future__ import annotations

from dataclasses import replace

from penstock.registry.errors import invalid_schema, version_not_found
from penstock.registry.model import CompatibilityAnswer, Mode, SchemaRequest
from penstock.registry.names import canonical
from penstock.registry.operations.lookups import LATEST, version_number
from penstock.registry.operations.request_preparation import (
    Circumstances,
    check_usable,
    compare,
    content_with_contract,
    gather,
    parsed_request,
    rules_of,
)
from penstock.registry.operations.scopes import find_subject
from penstock.registry.services.engine import Engine
from penstock.schemas.schema import InvalidSchemaError


class Compatibility:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = engine.state

    async def with_version(
        self, subject: str, version: str, request: SchemaRequest, *, normalize: bool = False, verbose: bool = False
    ) -> CompatibilityAnswer:
        """Compares with one version (40402, 42201, 42202). A schema fits a subject without a latest version."""
        number = version_number(version)
        circumstances = self._gather(subject, request, normalize=normalize)
        live = circumstances.live
        if number == LATEST:
            chosen = live[-1:]
        else:
            chosen = tuple(each for each in live if each.stored.version == number)
            if not chosen:
                raise version_not_found(number)
        return await self._answer(replace(circumstances, live=chosen), verbose=verbose)

    async def with_subject(
        self, subject: str, request: SchemaRequest, *, normalize: bool = False, verbose: bool = False
    ) -> CompatibilityAnswer:
        """Compares with the versions that a registration would compare with (42201)."""
        return await self._answer(self._gather(subject, request, normalize=normalize), verbose=verbose)

    def _gather(self, subject: str, request: SchemaRequest, *, normalize: bool) -> Circumstances:
        meant = find_subject(self._state, canonical(subject))
        level = self._engine.default_level
        try:
            return gather(self._state, meant, request, level, normalize=normalize, is_new=True)
        except InvalidSchemaError as error:
            raise invalid_schema(str(error)) from None

    async def _answer(self, circumstances: Circumstances, *, verbose: bool) -> CompatibilityAnswer:
        messages = await self._engine.workers.run(lambda: self._compare(circumstances))
        return CompatibilityAnswer(not messages, tuple(messages) if verbose else ())

    def _compare(self, circumstances: Circumstances) -> list[str]:
        parser = self._engine.parser
        parsed = parsed_request(circumstances.given, parser)
        if circumstances.mode is Mode.IMPORT:
            return []
        content = content_with_contract(circumstances, parsed)
        check_usable(content, circumstances, parser)
        return compare(parsed, content.metadata, circumstances.live, rules_of(circumstances.config), parser)
