"""Operations on config and mode at every scope: the default context, a context (`:.context:`), all contexts
(`:.__GLOBAL:`), a subject."""

from __future__ import annotations

from dataclasses import replace

from penstock.registry.errors import no_subject_level_config, no_subject_level_mode
from penstock.registry.model import Config, ConfigRequest, Mode
from penstock.registry.names import check_scope
from penstock.registry.operations.config_changes import (
    decide_config_change,
    decide_config_removal,
    decide_mode_change,
    decide_mode_removal,
    mode_of,
)
from penstock.registry.operations.scopes import config_in_scope, mode_in_scope
from penstock.registry.services.engine import Engine


class Settings:
    """`scope` is "" for the global settings, or the scope in the path."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = engine.state

    async def config(self, scope: str = "", *, default_to_global: bool = False) -> Config:
        """The config at the scope (40408); with `default_to_global` the config in force there."""
        scope = check_scope(scope)
        if default_to_global:
            return config_in_scope(self._state, scope, self._engine.default_level)
        config = self._state.configs.get(scope)
        if not scope:
            config = config or Config()
            return replace(config, compatibility_level=config.compatibility_level or self._engine.default_level)
        if config is None:
            raise no_subject_level_config(scope)
        return config

    async def set_config(self, request: ConfigRequest, scope: str = "") -> ConfigRequest:
        """Changes the fields in the request, and answers with the request (42203, 42205, 42208)."""
        scope = check_scope(scope)
        return await self._engine.writer.submit(lambda _: decide_config_change(self._state, scope, request))

    async def delete_config(self, scope: str = "") -> Config:
        """Removes the config and returns it; the global config returns to its default (40401, 42205)."""
        scope, level = check_scope(scope), self._engine.default_level
        return await self._engine.writer.submit(lambda _: decide_config_removal(self._state, scope, level))

    async def mode(self, scope: str = "", *, default_to_global: bool = False) -> Mode:
        """The mode at the scope (40409); with `default_to_global` the mode in force there."""
        scope = check_scope(scope)
        if default_to_global:
            return mode_in_scope(self._state, scope)
        mode = self._state.modes.get(scope)
        if mode is None and scope:
            raise no_subject_level_mode(scope)
        return mode or Mode.READWRITE

    async def set_mode(self, mode: str, scope: str = "", *, force: bool = False) -> Mode:
        """Sets the mode (42204; 42205: IMPORT needs `force` while there are schemas)."""
        scope, wanted = check_scope(scope), mode_of(mode)
        return await self._engine.writer.submit(lambda _: decide_mode_change(self._state, scope, wanted, force=force))

    async def delete_mode(self, scope: str = "", *, recursive: bool = False) -> Mode:
        """Removes the mode and returns it (40401); `recursive`: those of the context's subjects, too."""
        scope = check_scope(scope)
        return await self._engine.writer.submit(lambda _: decide_mode_removal(self._state, scope, recursive=recursive))
