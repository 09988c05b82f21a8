"""The config and mode in force for a subject, and the meaning of a name in a path.

The scopes of a subject are the subject itself, its context (the global scope, in the default context), and
`:.__GLOBAL:`, which applies in every context. Each field of a config comes from the first scope that sets it; an alias
belongs to the subject alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from penstock.registry.errors import operation_not_permitted
from penstock.registry.model import Config, Mode
from penstock.registry.names import DEFAULT_CONTEXT, GLOBAL_SCOPE, beside, context_of, join, scope_of, split
from penstock.registry.state import State
from penstock.schemas.compatibility import Level

# The registry writes nothing in these modes: FORWARD leaves that to another registry, and there is none here.
_READ_ONLY = frozenset({Mode.READONLY, Mode.READONLY_OVERRIDE, Mode.FORWARD})


def config_in_scope(state: State, scope: str, default_level: Level) -> Config:
    merged = Config(compatibility_level=default_level)
    for each in reversed(list(_scopes(scope))):
        config = state.configs.get(each)
        if config is not None:
            merged = _over(merged, config)
    own = state.configs.get(scope)
    return replace(merged, alias=None if own is None else own.alias)


def _over(below: Config, above: Config) -> Config:
    set_fields = {field.name: getattr(above, field.name) for field in fields(Config)}
    return replace(below, **{name: value for name, value in set_fields.items() if value is not None})


def mode_in_scope(state: State, scope: str) -> Mode:
    outer = [state.modes.get(each) for each in (scope_of(context_of(scope)), GLOBAL_SCOPE)]
    # READONLY_OVERRIDE overrides the modes of all subjects within.
    if Mode.READONLY_OVERRIDE in outer:
        return Mode.READONLY_OVERRIDE
    return next((mode for mode in (state.modes.get(scope), *outer) if mode is not None), Mode.READWRITE)


def check_writable(state: State, scope: str) -> None:
    """42205 if nothing may be changed there."""
    if mode_in_scope(state, scope) in _READ_ONLY:
        raise read_only(scope)


def is_read_only(mode: Mode) -> bool:
    return mode in _READ_ONLY


def read_only(scope: str) -> Exception:
    context, name = split(scope)
    return operation_not_permitted(f"Subject '{name}' in context '{context}' is in read-only mode")


def meant_subject(state: State, subject: str) -> str:
    """The subject that a path means: the alias of its subject, where there is an alias."""
    config = state.configs.get(subject)
    if config is None or not config.alias:
        return subject
    return beside(subject, config.alias)


def find_subject(state: State, subject: str, *, deleted: bool = False) -> str:
    """As `meant_subject`; a name without a context that the default context does not have is searched in all others."""
    meant = meant_subject(state, subject)
    name = split(meant)
    if name.context != DEFAULT_CONTEXT or _has(state, meant, deleted=deleted):
        return meant
    elsewhere = (join(context, name.name) for context in sorted(state.contexts) if context != DEFAULT_CONTEXT)
    return next((each for each in elsewhere if _has(state, each, deleted=deleted)), meant)


def _has(state: State, subject: str, *, deleted: bool) -> bool:
    versions = state.subject(subject)
    return versions is not None and (deleted or versions.live_count > 0)


def _scopes(scope: str) -> Iterator[str]:
    """From the narrowest to the widest."""
    around = scope_of(context_of(scope))
    yield scope
    if around != scope:
        yield around
    if scope != GLOBAL_SCOPE:
        yield GLOBAL_SCOPE
