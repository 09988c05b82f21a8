"""Keys and values of a test as bytes, and back, by the formats that the application has named."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from penstock.client.registry import NewSchema, RegistryAnswerError, RegistryClient, RegistrySettings
from penstock.pipelines.pipeline import DEFAULT_SETTINGS
from penstock.pipelines.steps.registries import address_of
from penstock.schemas.schema import SchemaType
from penstock.serdes.compilation import CodecOptions
from penstock.serdes.errors import SerdesError
from penstock.serdes.serializers import SchemaChoice, Serializers
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, FormatKind
from penstock.streams.topology_test.records import RawRecord, Record, encode
from penstock.streams.topology_test.registry import running_registry
from penstock.streams.topology_test.topics import Topics

if TYPE_CHECKING:
    from penstock.pipelines.payloads.decoding import PayloadDecoder


class Coding:
    """Formats of a registry find one in this process, which knows the `schemas` that the test has given."""

    def __init__(self, topics: Topics, schemas: Mapping[str, str], closing: ExitStack) -> None:
        self._topics = topics
        self._serializers: Serializers | None = None
        self._decoders: dict[str, PayloadDecoder] = {}  # by subject
        self.registry: dict[str, str] = {}  # settings of its clients
        if not topics.has_registry_formats and not schemas:
            return
        self.registry = {"url": closing.enter_context(running_registry()).url}
        client = closing.enter_context(RegistryClient(RegistrySettings.of_url(self.registry["url"])))
        # Values of unions may come without the names of their branches.
        self._serializers = Serializers(client, CodecOptions(is_lenient=True))
        for subject, text in schemas.items():
            client.register(subject, NewSchema(text, schema_type(text)))

    def encoded(self, topic: str, record: Record) -> tuple[bytes | None, bytes | None]:
        """Key and value. Raises StreamsError."""
        source = self._topics.source(topic)
        return (
            encode(topic, True, source.key, record.key, self._by_registry),
            encode(topic, False, source.value, record.value, self._by_registry),
        )

    def decoded(self, topic: str, record: RawRecord, key_kind: Callable[[str], FormatKind]) -> Record:
        """`key_kind` is called for a sink without a format of its keys."""
        key, value = self._topics.formats(topic)
        return Record(
            self._decoded(topic, True, key or Format(key_kind(topic)), record.key),
            self._decoded(topic, False, value, record.value),
            record.timestamp_ms,
            record.headers,
        )

    def _by_registry(self, topic: str, is_key: bool, kind: Format, given: Any) -> bytes:
        assert self._serializers is not None
        subject = _subject(topic, is_key, kind)
        try:
            return self._serializers.encode(topic, is_key, SchemaChoice(is_latest=True, subject=subject), given)
        except RegistryAnswerError as error:
            raise StreamsError(
                f"the test's registry has no schema for {subject}: {error.message}",
                f"Give its text: TopologyTest(app, schemas={{{subject!r}: ...}}).",
            ) from error
        except SerdesError as error:
            raise StreamsError(f"a row of topic {topic} does not fit the schema of {subject}: {error}") from error

    def _decoded(self, topic: str, is_key: bool, kind: Format, data: bytes | None) -> Any:
        if data is None:
            return None
        if kind.kind is FormatKind.REGISTRY:
            return self._read_by_registry(_subject(topic, is_key, kind), is_key, data)
        return _READERS[kind.kind](data)

    def _read_by_registry(self, subject: str, is_key: bool, data: bytes) -> Any:
        """As Spark sees it: the values of a union without the names of its branches."""
        import pyarrow as pa

        from penstock.pipelines.payloads.decoding import open_decoder
        from penstock.pipelines.payloads.formats import resolve_format

        decoder = self._decoders.get(subject)
        if decoder is None:
            decoder = open_decoder(resolve_format(address_of(self.registry, DEFAULT_SETTINGS), subject), is_key=is_key)
            self._decoders[subject] = decoder
        decoded = decoder.decode(pa.array([data], pa.binary()))
        (error,) = decoded.errors.to_pylist()
        if error is not None:
            raise StreamsError(f"what was written by the schema of {subject} cannot be read: {error}")
        return decoded.values.to_pylist()[0]


def _subject(topic: str, is_key: bool, kind: Format) -> str:
    return kind.subject or f"{topic}-{'key' if is_key else 'value'}"


def schema_type(text: str) -> SchemaType:
    """The kind of a schema, by its text."""
    try:
        parsed = json.loads(text)
    except ValueError:
        return SchemaType.PROTOBUF
    is_json_schema = isinstance(parsed, dict) and ("$schema" in parsed or parsed.get("type") == "object")
    return SchemaType.JSON if is_json_schema else SchemaType.AVRO


_READERS: dict[FormatKind, Callable[[bytes], Any]] = {
    FormatKind.JSON: json.loads,
    FormatKind.TEXT: bytes.decode,
    FormatKind.RAW: bytes,
}
