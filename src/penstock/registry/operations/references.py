"""The references of a schema, with their own references in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.registry.model import StoredSchema
from penstock.registry.names import beside
from penstock.registry.state import State
from penstock.schemas.limits import DEFAULT_LIMITS, Limits
from penstock.schemas.schema import InvalidSchemaError, Reference, ResolvedReference

_LATEST = -1


def with_versions(state: State, subject: str, references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The references with the present version in place of `-1`, the latest: a stored reference does not change
    later.
    """
    return tuple(
        replace(each, version=_referred(state, subject, each).version) if each.version == _LATEST else each
        for each in references
    )


def resolve(
    state: State, subject: str, references: Sequence[Reference], limits: Limits = DEFAULT_LIMITS
) -> tuple[ResolvedReference, ...]:
    """Each after all that it needs; `InvalidSchemaError` where a reference names nothing, or there are too many.

    Without recursion: chains of references may be as long as the limit allows. A cycle, which only imported schemas can
    have, ends where it began.
    """
    if not references:
        return ()
    resolved: list[ResolvedReference] = []
    seen: set[tuple[str, str, int]] = set()
    size = 0
    # A reference, and whether all that it needs has been resolved.
    waiting: list[tuple[str, Reference, StoredSchema | None]] = [(subject, each, None) for each in reversed(references)]
    while waiting:
        referrer, reference, done = waiting.pop()
        if done is not None:
            resolved.append(ResolvedReference(reference.name, done.content.text, done.subject, done.version))
            continue
        stored = _referred(state, referrer, reference)
        key = (reference.name, stored.subject, stored.version)
        if key in seen:
            continue
        seen.add(key)
        size += len(stored.content.text)
        if len(seen) > limits.references or size > limits.resolved_bytes:
            raise InvalidSchemaError(
                f"The schema refers to more than {limits.references} schemas or {limits.resolved_bytes} characters"
            )
        waiting.append((referrer, reference, stored))
        waiting += [(stored.subject, each, None) for each in reversed(stored.content.references)]
    return tuple(resolved)


def qualified(subject: str, references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The references with the contexts of their subjects written out."""
    return tuple(replace(each, subject=beside(subject, each.subject)) for each in references)


def _referred(state: State, referrer: str, reference: Reference) -> StoredSchema:
    """A soft-deleted version keeps its definition. The latest version is the latest that is not deleted."""
    subject = beside(referrer, reference.subject)
    versions = state.subject(subject)
    if versions is not None:
        latest = reference.version == _LATEST
        stored = versions.latest() if latest else versions.get(reference.version)
        if stored is not None:
            return stored
    raise InvalidSchemaError(
        f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
    )
