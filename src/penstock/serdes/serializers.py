"""Values to payloads and back, with schemas of a registry.

`Serializers` uses the registry client of its owner, and keeps compiled schemas within bounds. Its methods block when
they call the registry or compile a schema. Code on an event loop calls `peek_encoder` or `peek_decode` first, and their
siblings in a thread when the answer is None; an `Encoder` never blocks, and is good for many records.

Null is not a value here: a null key or value of a record has no schema, and stays null.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from penstock.client.registry import (
    NewSchema,
    RegisteredSchema,
    RegistryAnswerError,
    RegistryClient,
    SchemaReference,
)
from penstock.core.bounded_cache import BoundedCache
from penstock.schemas.schema import SchemaType
from penstock.serdes.codec import MOST_BYTES, Codec
from penstock.serdes.compilation import CodecOptions, compile_codec
from penstock.serdes.errors import ChoiceError, TooLargeError
from penstock.serdes.framing import Frame, Headers, header_name, header_value, prefix, read_frame
from penstock.serdes.subjects import Strategy, subject_for
from penstock.serdes.views import Kept, NotKeptError, View

# Compiled, a schema takes tens of times its text.
_MOST_CODECS = 500
_MOST_TEXT_BYTES = 16 << 20
_ENTRY_BYTES = 2_000
# A registry's code for a text that is no schema.
_INVALID_SCHEMA = 42201
# Of a verdict: a registry has one for each field and version.
_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """The choice of the schema that a value is written with: exactly one of text, id, version and latest.

    The subject follows from the strategy unless it is given. A text is registered, or only looked up without
    `auto_register`.
    """

    text: str | None = None
    schema_id: int | None = None
    version: int | None = None
    is_latest: bool = False
    subject: str | None = None
    strategy: Strategy = Strategy.TOPIC_NAME
    # The format of the text, or the required format of a schema that the registry has.
    schema_type: SchemaType | None = None
    references: tuple[SchemaReference, ...] = ()
    # The message's name in a Protobuf file. The first message if it is None.
    message: str | None = None
    auto_register: bool = True
    normalize: bool = False


@dataclass(frozen=True, slots=True)
class Encoder:
    """Writes values with one schema. It never blocks."""

    schema: RegisteredSchema
    # The subject of the schema; None for a schema that was named by its id.
    subject: str | None
    is_key: bool
    _codec: Codec = field(repr=False)
    _message: str | None
    _before: bytes

    @property
    def schema_id(self) -> int:
        assert self.schema.id is not None
        return self.schema.id

    @property
    def schema_type(self) -> SchemaType:
        return self._codec.schema_type

    def encode(self, value: Any, most_bytes: int = MOST_BYTES) -> bytes:
        """With the id in front. Raises PayloadError; TooLargeError for more than `most_bytes`."""
        payload = self._before + self._codec.encode(value, self._message, most_bytes)
        if len(payload) > most_bytes:
            raise TooLargeError(most_bytes)
        return payload

    def encode_with_header(self, value: Any) -> tuple[tuple[str, bytes], bytes]:
        """A header with the guid, and the bare payload. Raises ChoiceError where the registry gave no guid."""
        if self.schema.guid is None:
            raise ChoiceError("the registry gives no guid for this schema, so that it cannot be named in a header")
        named = header_value(self.schema.guid) + self._codec.indexes(self._message)
        return (header_name(is_key=self.is_key), named), self._codec.encode(value, self._message)


@dataclass(frozen=True, slots=True)
class Decoded:
    value: Any
    schema: RegisteredSchema

    @property
    def schema_id(self) -> int | None:
        return self.schema.id

    @property
    def schema_type(self) -> SchemaType:
        return SchemaType(self.schema.schema_type)


class Serializers:
    def __init__(self, registry: RegistryClient, options: CodecOptions | None = None) -> None:
        self._options = CodecOptions() if options is None else options
        self._registry = registry
        self._kept = Kept(registry)
        self._codecs: BoundedCache[Hashable, Codec] = BoundedCache(_MOST_CODECS, _MOST_TEXT_BYTES)

    def encode(self, topic: str, is_key: bool, choice: SchemaChoice, value: Any) -> bytes:
        """Raises SerdesError and RegistryClientError."""
        return self.encoder(topic, is_key, choice).encode(value)

    def encoder(self, topic: str, is_key: bool, choice: SchemaChoice) -> Encoder:
        """Raises SerdesError and RegistryClientError."""
        return self._encoder(self._registry, topic, is_key, choice)

    def peek_encoder(self, topic: str, is_key: bool, choice: SchemaChoice) -> Encoder | None:
        """None where the registry must be called or the schema compiled: call `encoder` in a thread then."""
        try:
            return self._encoder(self._kept, topic, is_key, choice)
        except NotKeptError:
            return None

    def draft(self, topic: str, is_key: bool, choice: SchemaChoice) -> Encoder:
        """The encoder of a text before its registration, which the registry would accept as far as its check tells. The
        payloads name no schema, and show whether values fit the text. Raises SerdesError and RegistryClientError.
        """
        _check(choice)
        assert choice.text is not None
        new = NewSchema(choice.text, (choice.schema_type or SchemaType.AVRO).value, choice.references)
        codec = self._codec(self._registry, new, choice.subject)
        self._refuse_unfit(self._subject(self._registry, topic, is_key, choice, codec), new, choice.normalize)
        before = prefix(0) + codec.indexes(choice.message)
        return Encoder(RegisteredSchema(new, id=0), choice.subject, is_key, codec, choice.message, before)

    def _refuse_unfit(self, subject: str, new: NewSchema, normalize: bool) -> None:
        """A text that is registered already is fit, even if it is incompatible with later versions. Where the registry
        gives no verdict, the registration will show it.
        """
        try:
            if self._is_there(subject, new, normalize):
                return
            verdict = self._registry.administration.check(subject, new, normalize=normalize)
        except RegistryAnswerError as error:
            if error.code == _INVALID_SCHEMA:
                raise
            return
        if not verdict.is_compatible:
            reasons = ", ".join(verdict.messages[:_MOST_REASONS])
            text = f"the schema is incompatible with an earlier one of the subject {subject}: {reasons}"
            raise RegistryAnswerError(409, 409, text)

    def _is_there(self, subject: str, new: NewSchema, normalize: bool) -> bool:
        """The client keeps the answer for a while, and asks once for all callers, unlike a verdict."""
        try:
            self._registry.lookup(subject, new, normalize=normalize)
        except RegistryAnswerError as error:
            if error.is_not_found:
                return False
            raise
        return True

    def decode(self, topic: str, is_key: bool, data: bytes, headers: Headers = ()) -> Decoded:
        """Raises SerdesError and RegistryClientError."""
        return self._decode(self._registry, read_frame(data, headers, is_key=is_key))

    def peek_decode(self, topic: str, is_key: bool, data: bytes, headers: Headers = ()) -> Decoded | None:
        """None where the registry must be called or the schema compiled: call `decode` in a thread then."""
        try:
            return self._decode(self._kept, read_frame(data, headers, is_key=is_key))
        except NotKeptError:
            return None

    def _decode(self, view: View, frame: Frame) -> Decoded:
        if frame.schema_id is not None:
            schema = view.schema_by_id(frame.schema_id)
        else:
            assert frame.guid is not None
            schema = view.schema_by_guid(frame.guid)
        codec = self._codec(view, schema.schema, schema.subject)
        return Decoded(codec.decode(frame.payload, frame.before), schema)

    def _encoder(self, view: View, topic: str, is_key: bool, choice: SchemaChoice) -> Encoder:
        _check(choice)
        if choice.text is not None:
            schema_type = choice.schema_type or SchemaType.AVRO
            new = NewSchema(choice.text, schema_type.value, choice.references)
            codec = self._codec(view, new, choice.subject)
            subject: str | None = self._subject(view, topic, is_key, choice, codec)
            assert subject is not None
            ask = view.register if choice.auto_register else view.lookup
            schema = ask(subject, new, normalize=choice.normalize)
        else:
            schema, subject = self._chosen(view, topic, is_key, choice)
            codec = self._codec(view, schema.schema, subject)
            if choice.schema_type not in (None, codec.schema_type):
                raise ChoiceError(f"the schema is {codec.schema_type}, not {choice.schema_type}")
        if schema.id is None:
            raise ChoiceError("the registry gives no id for this schema")
        before = prefix(schema.id) + codec.indexes(choice.message)
        return Encoder(schema, subject, is_key, codec, choice.message, before)

    def _chosen(
        self, view: View, topic: str, is_key: bool, choice: SchemaChoice
    ) -> tuple[RegisteredSchema, str | None]:
        if choice.schema_id is not None:
            return view.schema_by_id(choice.schema_id, choice.subject), choice.subject
        subject = self._subject(view, topic, is_key, choice, None)
        if choice.version is not None:
            return view.version(subject, choice.version), subject
        return view.latest(subject), subject

    def _subject(self, view: View, topic: str, is_key: bool, choice: SchemaChoice, codec: Codec | None) -> str:
        if choice.subject is not None:
            return choice.subject
        if choice.strategy is Strategy.ASSOCIATED:
            associated = view.associated_subject(topic, is_key=is_key)
            return associated or subject_for(Strategy.TOPIC_NAME, topic, None, is_key=is_key)
        if codec is None and choice.strategy.needs_record:
            raise ChoiceError(f"{choice.strategy} needs the text or the id of a schema, or a subject")
        record_name = None if codec is None else codec.record_name(choice.message)
        return subject_for(choice.strategy, topic, record_name, is_key=is_key)

    def _codec(self, view: View, schema: NewSchema, subject: str | None) -> Codec:
        key = (schema.schema_type, schema.text, schema.references, subject if schema.references else None)
        codec = self._codecs.get(key)
        if codec is None:
            if view is self._kept:
                raise NotKeptError
            others = self._registry.referenced(schema, subject)
            codec = compile_codec(schema, others, self._options)
            size = len(schema.text) + sum(len(each.text) for each in others)
            self._codecs.put(key, codec, _ENTRY_BYTES + size)
        return codec


def _check(choice: SchemaChoice) -> None:
    given = (choice.text is not None, choice.schema_id is not None, choice.version is not None, choice.is_latest)
    if sum(given) != 1:
        raise ChoiceError("a schema is named by exactly one of its text, its id, its version, and latest")
