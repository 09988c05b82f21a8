"""Changes of config and mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.registry.errors import invalid_mode, operation_not_permitted, subject_not_found
from penstock.registry.model import Config, ConfigRequest, Mode
from penstock.registry.names import GLOBAL_SCOPE, context_of, scope_of, split
from penstock.registry.operations.decision import Decision
from penstock.registry.operations.scopes import check_writable
from penstock.registry.records import ConfigKey, ModeKey, encode_config, encode_mode
from penstock.registry.state import State
from penstock.schemas.compatibility import Level


def decide_config_change(state: State, scope: str, request: ConfigRequest) -> Decision[ConfigRequest]:
    """Fields in the request change; the rest stays."""
    check_writable(state, scope)
    config = replace(state.configs.get(scope, Config()), **request.changes)
    value = None if config == Config() else encode_config(scope, config)
    return Decision(tuple(state.records_for(ConfigKey(scope), value)), lambda: request)


def decide_config_removal(state: State, scope: str, default_level: Level) -> Decision[Config]:
    """The answer is the removed config. The global config has a default, and can be removed even if it is not set."""
    check_writable(state, scope)
    config = state.configs.get(scope)
    if config is None:
        if scope:
            raise subject_not_found(scope)
        return Decision((), lambda: Config(compatibility_level=default_level))
    was = config
    return Decision(tuple(state.records_for(ConfigKey(scope), None)), lambda: was)


def mode_of(name: str) -> Mode:
    """42204 if there is no such mode."""
    if name.upper() not in Mode.__members__:
        raise invalid_mode(name)
    return Mode[name.upper()]


def decide_mode_change(state: State, scope: str, mode: Mode, *, force: bool) -> Decision[Mode]:
    """Schemas with ids of their own are for places without schemas, unless the caller forces them."""
    if mode is Mode.IMPORT and not force and any(_live_subjects(state, scope)):
        raise operation_not_permitted("Cannot import since found existing subjects")
    return Decision(tuple(state.records_for(ModeKey(scope), encode_mode(scope, mode))), lambda: mode)


def decide_mode_removal(state: State, scope: str, *, recursive: bool) -> Decision[Mode]:
    was = state.modes.get(scope)
    if was is None and scope and not recursive:
        raise subject_not_found(scope)
    doomed = [scope] if was is not None else []
    if recursive:
        doomed += [each for each in state.modes if each != scope and _is_within(each, scope)]
    records = [record for each in doomed for record in state.records_for(ModeKey(each), None)]
    return Decision(tuple(records), lambda: was or Mode.READWRITE)


def _is_within(scope: str, outer: str) -> bool:
    if outer == GLOBAL_SCOPE:
        return True
    return not split(outer).name and context_of(scope) == context_of(outer)


def _live_subjects(state: State, scope: str) -> Iterator[str]:
    for context, schemas in state.contexts.items():
        if scope_of(context) != scope_of(context_of(scope)) and scope != GLOBAL_SCOPE:
            continue
        for subject, versions in schemas.subjects.items():
            if versions.live_count and (not split(scope).name or subject == scope):
                yield subject
