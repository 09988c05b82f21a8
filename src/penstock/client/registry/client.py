"""A client of a schema registry: Penstock's, Confluent's, Apicurio's `ccompat`. Blocks. For several threads.

What it keeps, all within bounds:
- What an id or a guid stands for never changes, and is kept for ever. So is that a subject has an id.
- What was registered or looked up is kept for a minute, versions and the latest one for some seconds: they can be
  deleted, and others follow.
- That there is no such thing is kept for a moment, so that a stranger's made-up ids do not become questions.

The `peek_` methods answer from what is kept, and never block: code on an event loop asks them first, and calls the
others in a thread when the answer is None. `peek_...` raises the answer that is kept for a moment, as its sibling does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from penstock.client.registry.administration import RegistryAdministration
from penstock.client.registry.answers import KeptAnswers, Refusals
from penstock.client.registry.errors import RegistryAnswerError
from penstock.client.registry.model import NewSchema, ReferencedSchema, RegisteredSchema
from penstock.client.registry.queries import Queries
from penstock.client.registry.references import collect, context_of
from penstock.client.registry.settings import RegistrySettings
from penstock.client.registry.transport import RegistryTransport
from penstock.core.bounded_cache import BoundedCache


@dataclass(frozen=True, slots=True)
class CacheLimits:
    # For each of what is kept for ever, for a minute, and for seconds.
    schemas: int = 2_000
    schema_bytes: int = 16 << 20
    # Pairs of a subject and an id: small, and one for each that clients name.
    memberships: int = 20_000
    refusals: int = 5_000
    refusal_bytes: int = 8 << 20
    latest_s: float = 5.0
    registered_s: float = 60.0
    refused_s: float = 1.0


DEFAULT_LIMITS = CacheLimits()


class RegistryClient:
    def __init__(
        self,
        settings: RegistrySettings,
        limits: CacheLimits = DEFAULT_LIMITS,
        *,
        clock: Callable[[], float] = time.monotonic,
        transport: RegistryTransport | None = None,
    ) -> None:
        self._transport = RegistryTransport(settings) if transport is None else transport
        self._queries = Queries(self._transport)
        # What is asked seldom, and never kept.
        self.administration = RegistryAdministration(self._transport)
        self._refusals: Refusals = BoundedCache(
            limits.refusals, limits.refusal_bytes, keep_s=limits.refused_s, clock=clock
        )

        def kept(keep_s: float = float("inf")) -> KeptAnswers[RegisteredSchema]:
            return KeptAnswers(
                BoundedCache(limits.schemas, limits.schema_bytes, keep_s=keep_s, clock=clock), self._refusals
            )

        self._for_ever = kept()
        self._registered = kept(limits.registered_s)
        self._versions = kept(limits.latest_s)
        self._members: KeptAnswers[bool] = KeptAnswers(
            BoundedCache(limits.memberships, limits.schema_bytes, clock=clock), self._refusals
        )
        self._associations: KeptAnswers[tuple[str | None]] = KeptAnswers(
            BoundedCache(limits.schemas, limits.schema_bytes, keep_s=limits.latest_s, clock=clock), self._refusals
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def schema_by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        """`subject` says in which context the id counts; without it that is the default one."""
        return self._for_ever.ask(("id", schema_id, subject), lambda: self._queries.by_id(schema_id, subject))

    def peek_by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema | None:
        return self._for_ever.peek(("id", schema_id, subject))

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        return self._for_ever.ask(("guid", guid.lower()), lambda: self._queries.by_guid(guid))

    def peek_by_guid(self, guid: str) -> RegisteredSchema | None:
        return self._for_ever.peek(("guid", guid.lower()))

    def is_id_of(self, schema_id: int, subject: str) -> bool:
        """Whether a version of the subject, deleted or not, has the id."""
        try:
            ask = self._queries.membership
            return self._members.ask(("member", schema_id, subject), lambda: ask(schema_id, subject))
        except RegistryAnswerError as error:
            if error.is_not_found:
                return False
            raise

    def version(self, subject: str, version: int) -> RegisteredSchema:
        return self._versions.ask(("version", subject, version), lambda: self._queries.version(subject, version))

    def peek_version(self, subject: str, version: int) -> RegisteredSchema | None:
        return self._versions.peek(("version", subject, version))

    def latest(self, subject: str) -> RegisteredSchema:
        return self._versions.ask(("latest", subject), lambda: self._queries.version(subject, "latest"))

    def peek_latest(self, subject: str) -> RegisteredSchema | None:
        return self._versions.peek(("latest", subject))

    def register(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> RegisteredSchema:
        """Its id, whether it is new or not. Answers of older registries have no version."""
        return self._registered.ask(
            ("register", subject, schema, normalize),
            lambda: self._queries.registration(subject, schema, normalize),
        )

    def peek_registered(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> RegisteredSchema | None:
        return self._registered.peek(("register", subject, schema, normalize))

    def lookup(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> RegisteredSchema:
        """The version of the subject that has this schema; 40403 where there is none."""
        return self._registered.ask(
            ("lookup", subject, schema, normalize),
            lambda: self._queries.lookup(subject, schema, normalize),
        )

    def peek_lookup(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> RegisteredSchema | None:
        return self._registered.peek(("lookup", subject, schema, normalize))

    def associated_subject(self, topic: str, *, is_key: bool) -> str | None:
        """The subject that the registry has for the topic's keys or values; None where it has none of its own."""
        return self._associations.ask(("associated", topic, is_key), lambda: self._queries.association(topic, is_key))[
            0
        ]

    def peek_associated_subject(self, topic: str, *, is_key: bool) -> tuple[str | None] | None:
        """In a tuple, because the answer may be that there is none."""
        return self._associations.peek(("associated", topic, is_key))

    def referenced(self, schema: NewSchema, subject: str | None = None) -> tuple[ReferencedSchema, ...]:
        """All that the schema refers to, directly or through others, each after all that it needs itself."""
        return collect(schema, context_of(subject), self.version)

    def forget(self) -> None:
        """Everything that may change: after something was deleted or set, say."""
        self._versions.forget()
        self._registered.forget()
        self._associations.forget()
        self._refusals.clear()
