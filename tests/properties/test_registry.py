"""Histories of a registry: whatever is registered, deleted and configured, in whatever order, some things hold.

- No id names two contents in a context, and an id that was answered resolves until its schema is removed for good.
- An id is never given to another content, not even after its schema was removed.
- Versions of a subject only grow while the subject is there.
- The written log replayed from its beginning gives the same answers; so does the compacted log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.registry.errors import RegistryError
from penstock.registry.model import Deleted, Mode, SchemaRequest, StoredSchema, SubjectVersion
from penstock.schemas.compatibility import Level
from penstock.schemas.schema import Metadata, Reference
from tests.unit.registry.registering import Registry, record

NAMES = ("a", "b")
CONTEXTS = ("", ":.c:")
SUBJECTS = tuple(context + name for context in CONTEXTS for name in NAMES)
BASE = ":.c:base"
FIELDS = ("x", "y?", "z?")
# Few, so that the same content comes again and again.
TEXTS = tuple(record(*(field for bit, field in enumerate(FIELDS) if number >> bit & 1)) for number in range(8))
PROPERTIES = (None, Metadata.of(properties={"k": "1"}))

subjects = st.sampled_from(SUBJECTS)


def ask(question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, or the code of the error."""
    try:
        return question(*arguments)
    except RegistryError as error:
        return error.code


def answers(registry: Registry) -> dict[str, Any]:
    """Everything that can be read."""
    service = registry.service

    def users(schema_id: int, context: str) -> list[SubjectVersion]:
        return registry.run(service.schemas.versions_by_id(schema_id, subject=context, deleted=True))

    found: dict[str, Any] = {
        "subjects": registry.subjects(":*:", Deleted.INCLUDED),
        "contexts": registry.run(service.contexts.names()),
        "configs": dict(sorted(registry.state.configs.items())),
        "modes": dict(sorted(registry.state.modes.items())),
        "schemas": registry.run(service.schemas.search(":*:", deleted=True)),
    }
    for subject in (*SUBJECTS, BASE):
        found[f"live {subject}"] = ask(registry.versions, subject)
    for context in CONTEXTS:
        ids = range(1, registry.state.highest_id(context.strip(":") or ".") + 2)
        found[f"ids {context}"] = [ask(users, each, context) for each in ids]
        found[f"texts {context}"] = [ask(registry.text_by_id, each, context) for each in ids]
    return found


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        # What an id was answered for, by context; never forgotten.
        self.named: dict[tuple[str, int], tuple[str, object]] = {}
        self.highest: dict[str, int] = {}

    @initialize()
    def base(self) -> None:
        self._saw(self.registry.register(BASE, record("n", name="Base")))

    def _try(self, operation: Callable[[], Any]) -> Any:
        try:
            return operation()
        except RegistryError as error:
            if error.status not in (404, 409, 422):
                raise
            return None

    def _saw(self, stored: StoredSchema) -> None:
        context = stored.subject.rpartition(":")[0]
        content = (stored.content.text, stored.content.metadata)
        assert self.named.setdefault((context, stored.id), content) == content, "an id was given twice"
        assert stored.version >= 1
        self.highest[stored.subject] = max(self.highest.get(stored.subject, 0), stored.version)

    @rule(subject=subjects, text=st.sampled_from(TEXTS), metadata=st.sampled_from(PROPERTIES), normalize=st.booleans())
    def register(self, subject: str, text: str, metadata: Metadata | None, normalize: bool) -> None:
        was_there = self.registry.state.subject(subject) is not None
        before = self.highest.get(subject, 0)
        known = self._try(lambda: self.registry.lookup(subject, text, metadata=metadata))
        stored = self._try(lambda: self.registry.register(subject, text, metadata=metadata, normalize=normalize))
        if stored is None:
            return
        self._saw(stored)
        assert self.registry.lookup(subject, stored.content.text, metadata=stored.content.metadata).id == stored.id
        if known is None and was_there and stored.content.metadata == metadata:
            assert stored.version > before or stored.id in {each.id for each in self._live(subject)}

    @rule(subject=st.sampled_from((":.c:a", ":.c:b")), version=st.sampled_from((1, -1)))
    def register_with_reference(self, subject: str, version: int) -> None:
        text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "Base"]}]})
        references = (Reference("Base", "base", version),)
        stored = self._try(lambda: self.registry.register(subject, text, references=references))
        if stored is not None:
            self._saw(stored)

    @rule(subject=subjects, text=st.sampled_from(TEXTS), schema_id=st.integers(1, 12), version=st.integers(0, 5))
    def import_schema(self, subject: str, text: str, schema_id: int, version: int) -> None:
        registry = self.registry
        self._try(lambda: registry.set_mode("IMPORT", subject, force=True))
        context = subject.rpartition(":")[0]
        # Whoever imports an id that was once removed gives it another meaning: that is theirs to answer for.
        if (context, schema_id) not in self.named:
            stored = self._try(lambda: registry.register(subject, text, id=schema_id, version=version))
            if stored is not None:
                self._saw(stored)
        self._try(lambda: registry.run(registry.service.settings.delete_mode(subject)))

    @rule(subject=st.sampled_from((*SUBJECTS, BASE)), permanent=st.booleans())
    def delete(self, subject: str, permanent: bool) -> None:
        self._try(lambda: self.registry.delete(subject, permanent=permanent))
        if self.registry.state.subject(subject) is None:
            self.highest.pop(subject, None)

    @rule(subject=subjects)
    def remove(self, subject: str) -> None:
        """Both steps: compaction is worth most after this."""
        self.delete(subject, permanent=False)
        self.delete(subject, permanent=True)

    @rule(subject=subjects, version=st.integers(1, 6), permanent=st.booleans())
    def delete_version(self, subject: str, version: int, permanent: bool) -> None:
        self._try(lambda: self.registry.delete_version(subject, version, permanent=permanent))
        if self.registry.state.subject(subject) is None:
            self.highest.pop(subject, None)

    @rule(scope=st.sampled_from(("", ":.c:", ":.__GLOBAL:", *SUBJECTS)), level=st.sampled_from([*Level, None]))
    def configure(self, scope: str, level: Level | None) -> None:
        self._try(lambda: self.registry.configure(scope, compatibility=level))

    @rule(scope=st.sampled_from(("", ":.c:", *SUBJECTS)), mode=st.sampled_from([*Mode, None]))
    def set_mode(self, scope: str, mode: Mode | None) -> None:
        settings_of = self.registry.service.settings
        if mode is None or mode is Mode.IMPORT:
            self._try(lambda: self.registry.run(settings_of.delete_mode(scope)))
        else:
            self._try(lambda: self.registry.set_mode(mode, scope))

    @rule()
    def delete_context(self) -> None:
        self._try(lambda: self.registry.run(self.registry.service.contexts.delete(".c")))

    @rule(text=st.sampled_from(TEXTS), subject=subjects)
    def agree(self, text: str, subject: str) -> None:
        """What the check calls compatible is registered, if anything may be."""
        request = SchemaRequest(text)
        verdict = self.registry.run(self.registry.service.compatibility.with_subject(subject, request)).is_compatible
        try:
            self._saw(self.registry.register(subject, text))
        except RegistryError as error:
            if error.code != 42205 and (error.code != 409 or verdict):
                raise

    @rule()
    def start_again(self) -> None:
        """A new leader knows what the log says, and nothing else."""
        old, self.registry = self.registry, Registry(self.registry.log.records)
        assert answers(self.registry) == answers(old)
        old.close()

    @rule()
    def compact_and_start_again(self) -> None:
        old, self.registry = self.registry, Registry(self.registry.log.compacted())
        assert answers(self.registry) == answers(old)
        assert self.registry.state.highest_ids == old.state.highest_ids
        old.close()

    @invariant()
    def ids_resolve_to_what_they_were_given_for(self) -> None:
        for (context, schema_id), (text, _) in self.named.items():
            schemas = self.registry.state.contexts.get(context.strip(":") or ".")
            named = None if schemas is None else schemas.named(schema_id)
            if named is not None:
                assert named.content.text == text
        for subject in (*SUBJECTS, BASE):
            for stored in self._every(subject):
                assert self.registry.text_by_id(stored.id, subject.rpartition(":")[0] + ":") == stored.content.text

    @invariant()
    def references_hold(self) -> None:
        for subject in SUBJECTS:
            for stored in self._every(subject):
                for reference in stored.content.references:
                    # Perhaps hidden: a schema may refer to what was hidden before.
                    assert self.registry.state.stored(BASE, reference.version) is not None

    def _live(self, subject: str) -> list[StoredSchema]:
        versions = self.registry.state.subject(subject)
        return [] if versions is None else list(versions.oldest_first())

    def _every(self, subject: str) -> list[StoredSchema]:
        versions = self.registry.state.subject(subject)
        return [] if versions is None else list(versions.oldest_first(deleted=True))

    def teardown(self) -> None:
        for replayed in (Registry(self.registry.log.records), Registry(self.registry.log.compacted())):
            assert answers(replayed) == answers(self.registry)
            replayed.close()
        self.registry.close()


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


@pytest.mark.soak
class TestLongHistories(Histories.TestCase):  # type: ignore[misc,valid-type]
    settings = settings(max_examples=600, stateful_step_count=50, deadline=None)
