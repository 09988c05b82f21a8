"""Judges whether the registry has the schemas of a batch under the subjects of its topic.

Positive results are kept for ever, within bounds: an id never gets another meaning. The registry's client keeps the
absence of a schema only for a moment: a user may register the schema at any time.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import NamedTuple

from penstock.broker.schema_checks.payloads import Claims, PayloadHead, SchemaName, Side, note_error
from penstock.client.registry import RegisteredSchema, RegistryAnswerError, RegistryClient, RegistryUnreachableError
from penstock.core.bounded_cache import BoundedCache
from penstock.serdes.errors import SerdesError
from penstock.serdes.framing import read_indexes
from penstock.serdes.subjects import subject_for

# The number of kept pairs of a subject and a schema.
_MOST_GOOD = 50_000
_MOST_NAMED = 2_000
# The number of questions for one batch. Producers use a schema or two; a client with made-up ids does not cost a
# question for each.
_MOST_QUESTIONS = 20
_MAX_ID = 2**31 - 1
# The registry's errors for a missing schema or an impossible name.
_NO = (400, 404, 422)


class MustAskError(Exception):
    """The registry has to be asked, and the caller may not ask here."""


class TooManyQuestionsError(Exception):
    """The batch names more unknown schemas than one check may ask for."""


class SilentRegistryError(RegistryUnreachableError):
    """The registry was not asked, because it did not answer a moment ago."""


class _Named(NamedTuple):
    """The name of a schema's record; for Protobuf the names of its messages, as far as they were needed."""

    name: str | None
    by_indexes: dict[tuple[int, ...], str | None] | None = None


class _Questions:
    """The number of questions that are left; None where the caller may not ask."""

    def __init__(self, left: int | None) -> None:
        self._left = left

    def take(self) -> None:
        if self._left is None:
            raise MustAskError
        if self._left == 0:
            raise TooManyQuestionsError
        self._left -= 1


class Judge:
    """Several threads may use a judge."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._good: BoundedCache[Hashable, bool] = BoundedCache(_MOST_GOOD)
        self._named: BoundedCache[SchemaName, _Named] = BoundedCache(_MOST_NAMED)

    def find_bad(self, claims: Claims, *, may_ask: bool) -> list[tuple[int, str]]:
        """The bad records and their errors. Raises MustAskError where `may_ask` is false and a schema is unknown,
        otherwise TooManyQuestionsError, where nothing bad was found up to there, and the client's error when the
        registry gives no answer.
        """
        questions = _Questions(_MOST_QUESTIONS if may_ask else None)
        errors = [*claims.errors]
        try:
            for (side, schema), places in claims.by_schema.items():
                self._judge(side, schema, places, questions, errors)
        except TooManyQuestionsError:
            if not errors:
                raise
        return sorted(errors)

    def _judge(
        self,
        side: Side,
        schema: SchemaName,
        places: list[PayloadHead],
        questions: _Questions,
        errors: list[tuple[int, str]],
    ) -> None:
        outcomes: dict[str | None, bool] = {}
        for place in places:
            name = self._name(schema, place.head, questions) if side.strategy.needs_record else None
            if name not in outcomes:
                outcomes[name] = self._is_good(side, schema, name, questions)
            if not outcomes[name]:
                note_error(errors, place.record, f"schema {schema} is not one of the {side.word}s of this topic")

    def _is_good(self, side: Side, schema: SchemaName, name: str | None, questions: _Questions) -> bool:
        if side.strategy.needs_record and name is None:
            return False
        subject = subject_for(side.strategy, side.topic, name, is_key=side.is_key)
        if self._good.get((subject, schema)):
            return True
        if isinstance(schema, int) and not 0 < schema <= _MAX_ID:
            return False
        questions.take()
        if not self._is_in(subject, schema):
            return False
        self._good.put((subject, schema), True)
        return True

    def _is_in(self, subject: str, schema: SchemaName) -> bool:
        try:
            if isinstance(schema, int):
                return self._client.is_id_of(schema, subject)
            self._client.lookup(subject, self._client.schema_by_guid(schema).schema)
        except RegistryAnswerError as error:
            if error.status in _NO:
                return False
            raise
        return True

    # ------------------------------------------------------------------------------------ names of records

    def _name(self, schema: SchemaName, head: bytes, questions: _Questions) -> str | None:
        """None for a schema without a name, for a missing schema, and for a message that the schema does not have."""
        named = self._named.get(schema)
        if named is None:
            questions.take()
            registered = self._fetch(schema)
            if registered is None:
                return None
            named = _read_name(registered)
            self._named.put(schema, named)
        if named.by_indexes is None:
            return named.name
        try:
            indexes = read_indexes(head)[0]
        except SerdesError:
            return None
        if indexes not in named.by_indexes:
            questions.take()
            registered = self._fetch(schema)
            if registered is None:
                return None
            # Missing names are not kept: a stranger can name them without end.
            name = _message_at(self._client, registered, indexes)
            if name is None:
                return None
            named.by_indexes[indexes] = name
        return named.by_indexes[indexes]

    def _fetch(self, schema: SchemaName) -> RegisteredSchema | None:
        try:
            if isinstance(schema, int):
                return self._client.schema_by_id(schema) if 0 < schema <= _MAX_ID else None
            return self._client.schema_by_guid(schema)
        except RegistryAnswerError as error:
            if error.status in _NO:
                return None
            raise


def _read_name(registered: RegisteredSchema) -> _Named:
    """Avro's full name, or the title of a JSON Schema. The registry has accepted the text, so it is readable."""
    if registered.schema_type == "PROTOBUF":
        return _Named(None, {})
    try:
        document = json.loads(registered.text)
    except (ValueError, RecursionError):
        return _Named(None)
    if registered.schema_type == "JSON":
        title = document.get("title") if isinstance(document, dict) else None
        return _Named(title if isinstance(title, str) else None)
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        return _Named(None)
    name, namespace = document["name"], document.get("namespace")
    return _Named(name if "." in name or not namespace else f"{namespace}.{name}")


def _message_at(client: RegistryClient, registered: RegisteredSchema, indexes: tuple[int, ...]) -> str | None:
    # Needs libraries that a broker without such topics does not load.
    from penstock.serdes.compilation import CodecOptions, compile_codec
    from penstock.serdes.protobuf import ProtobufCodec

    try:
        codec = compile_codec(registered.schema, client.referenced(registered.schema), CodecOptions())
        assert isinstance(codec, ProtobufCodec)
        return codec.name_at(indexes)
    except SerdesError:
        return None
