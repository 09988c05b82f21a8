"""The options of `produce` and `consume` about schemas."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.access.payloads import (
    AUTO,
    Encode,
    PayloadDecoder,
    SchemaWish,
    payload_decoder,
    record_encoder,
)
from penstock.cli.access.registry import open_registry, registry_errors_explained
from penstock.cli.errors import CliError
from penstock.cli.records.output import OutputRecord
from penstock.cli.registry_options import RegistryConfig, RegistryUrl

if TYPE_CHECKING:
    from penstock.client.registry import RegistryClient
    from penstock.serdes.serializers import Serializers

_WRITE_HELP = "{} are JSON, written by this schema: a file (registered), SUBJECT:VERSION, an id, or latest."
_READ_HELP = (
    "{} are printed as JSON: auto by the schemas that they name, a file, SUBJECT:VERSION or an id for bare ones."
)
_SchemaType = Annotated[
    str | None,
    typer.Option(metavar="TYPE", help="Of a file: AVRO, JSON or PROTOBUF; follows from .avsc, .json, .proto."),
]
_References = Annotated[
    list[str] | None,
    typer.Option(
        "--schema-reference",
        metavar="NAME=SUBJECT:VERSION",
        help="What the file of --schema refers to; may be repeated.",
    ),
]
# How many notes about records that cannot be read are shown.
_MOST_NOTES = 10


@dataclass(frozen=True, slots=True)
class WriteSchemaOptions:
    """What keys and values are written by."""

    schema: Annotated[str | None, typer.Option(metavar="SCHEMA", help=_WRITE_HELP.format("Values"))] = None
    key_schema: Annotated[str | None, typer.Option(metavar="SCHEMA", help=_WRITE_HELP.format("Keys"))] = None
    schema_type: _SchemaType = None
    schema_reference: _References = None
    message: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a Protobuf file for values; the first otherwise.")
    ] = None
    subject_strategy: Annotated[
        str, typer.Option(metavar="NAME", help="TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME or ASSOCIATED.")
    ] = "TOPIC_NAME"
    register_schema: Annotated[
        bool, typer.Option("--register/--no-register", help="Register a file that the registry does not have.")
    ] = True
    registry_url: RegistryUrl = None
    registry_config: RegistryConfig = None

    @property
    def names(self) -> frozenset[str]:
        """Which of key and value have a schema."""
        given = {"key": self.key_schema, "value": self.schema}
        return frozenset(name for name, schema in given.items() if schema is not None)

    def encoder(self, topic: str) -> Encode | None:
        """None where nothing has a schema."""
        if not self.names:
            return None
        with open_registry(self.registry_url, self.registry_config) as registry:
            return record_encoder(_serializers(registry), topic, self._key_wish(), self._value_wish())

    def _key_wish(self) -> SchemaWish | None:
        if self.key_schema is None:
            return None
        return SchemaWish(
            self.key_schema, self.schema_type, strategy=self.subject_strategy, registers=self.register_schema
        )

    def _value_wish(self) -> SchemaWish | None:
        if self.schema is None:
            return None
        references = tuple(self.schema_reference or ())
        return SchemaWish(
            self.schema, self.schema_type, references, self.subject_strategy, self.message, self.register_schema
        )


Transform = Callable[[OutputRecord], OutputRecord | None]


@dataclass(frozen=True, slots=True)
class ReadSchemaOptions:
    """What keys and values are read by."""

    schema: Annotated[
        str | None,
        typer.Option(metavar="SCHEMA", help=_READ_HELP.format("Values") + " [default: auto with --registry]"),
    ] = None
    key_schema: Annotated[str | None, typer.Option(metavar="SCHEMA", help=_READ_HELP.format("Keys"))] = None
    schema_type: _SchemaType = None
    schema_reference: _References = None
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Go past records that their schema does not fit, with a note.")
    ] = False
    registry_url: RegistryUrl = None
    registry_config: RegistryConfig = None

    @contextlib.contextmanager
    def transform(self) -> Iterator[Transform]:
        """What is done to each record: None for one that is passed over."""
        is_asked = self.registry_url is not None or self.registry_config is not None
        value = self.schema or (AUTO if is_asked and self.key_schema is None else None)
        if value is None and self.key_schema is None:
            yield lambda record: record
            return
        with open_registry(self.registry_url, self.registry_config) as registry:
            serializers = _serializers(registry)
            decoders = [
                payload_decoder(registry, serializers, SchemaWish(schema, self.schema_type, references), is_key=is_key)
                for schema, references, is_key in (
                    (self.key_schema, (), True),
                    (value, tuple(self.schema_reference or ()), False),
                )
                if schema is not None
            ]
            yield _Reading(decoders, self.skip_errors)


class _Reading:
    def __init__(self, decoders: list[PayloadDecoder], skips_errors: bool) -> None:
        self._decoders = decoders
        self._skips_errors = skips_errors
        self._notes = 0

    def __call__(self, record: OutputRecord) -> OutputRecord | None:
        original = record
        try:
            for decoder in self._decoders:
                with registry_errors_explained():
                    text, schema_id = decoder.decode(original)
                if decoder.is_key:
                    record = record._replace(key=text, key_schema_id=schema_id, key_is_json=text is not None)
                else:
                    record = record._replace(value=text, value_schema_id=schema_id, value_is_json=text is not None)
        except CliError as error:
            if not self._skips_errors:
                raise
            self._notes += 1
            if self._notes <= _MOST_NOTES:
                output.note(f"Skipped: {error.message}")
            elif self._notes == _MOST_NOTES + 1:
                output.note("Skipped: more records, which are not shown.")
            return None
        return record


def _serializers(registry: RegistryClient) -> Serializers:
    from penstock.serdes.compilation import CodecOptions
    from penstock.serdes.serializers import Serializers

    # People leave the names of branches out where they are clear.
    return Serializers(registry, CodecOptions(is_lenient=True))
