"""Keys and values by schema for `produce` and `consume`: JSON on this side, payloads on the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.access.registry import registry_errors_explained
from penstock.cli.access.schema_files import LATEST, find_version, parse_place, read_schema
from penstock.cli.errors import CliError, UsageError
from penstock.cli.records.input import InputRecord
from penstock.cli.records.output import OutputRecord

if TYPE_CHECKING:
    from penstock.client.registry import NewSchema, RegistryClient
    from penstock.serdes.codec import Codec
    from penstock.serdes.serializers import SchemaChoice, Serializers

# The payload names its schema itself.
AUTO = "auto"
_FORMS = "Write a file, SUBJECT:VERSION, an id, or latest."


@dataclass(frozen=True, slots=True)
class SchemaWish:
    """What a user says about schemas, as text."""

    schema: str | None = None
    schema_type: str | None = None
    references: Sequence[str] = ()
    strategy: str = "TOPIC_NAME"
    message: str | None = None
    registers: bool = True

    def choice(self) -> SchemaChoice:
        """Raises UsageError."""
        from penstock.schemas.schema import SchemaType
        from penstock.serdes.errors import ChoiceError
        from penstock.serdes.serializers import SchemaChoice
        from penstock.serdes.subjects import strategy_named

        assert self.schema is not None
        try:
            strategy = strategy_named(self.strategy)
        except ChoiceError as error:
            raise UsageError(str(error)) from None
        if self.schema.isdecimal():
            return SchemaChoice(schema_id=int(self.schema), message=self.message)
        if self.schema == LATEST:
            return SchemaChoice(is_latest=True, strategy=strategy, message=self.message)
        place = parse_place(self.schema)
        if place is not None:
            is_latest = place.version is None
            return SchemaChoice(version=place.version, is_latest=is_latest, subject=place.subject, message=self.message)
        file = self.read()
        return SchemaChoice(
            file.text,
            strategy=strategy,
            schema_type=SchemaType(file.schema_type),
            references=file.references,
            message=self.message,
            auto_register=self.registers,
        )

    def read(self) -> NewSchema:
        assert self.schema is not None
        if not Path(self.schema).exists():
            raise UsageError(f"there is no schema {self.schema!r}, and no such file", _FORMS)
        return read_schema(Path(self.schema), self.schema_type, self.references)


Encode = Callable[[InputRecord], InputRecord]


def record_encoder(serializers: Serializers, topic: str, key: SchemaWish | None, value: SchemaWish | None) -> Encode:
    """Asks the registry now, so that records are sent only when their schemas are there. Nulls stay nulls."""
    from penstock.serdes.errors import SerdesError

    with registry_errors_explained():
        try:
            wishes = {"key": key, "value": value}
            encoders = {
                name: serializers.encoder(topic, name == "key", wish.choice())
                for name, wish in wishes.items()
                if wish is not None
            }
        except SerdesError as error:
            raise UsageError(str(error)) from None

    def encode(record: InputRecord) -> InputRecord:
        for name, encoder in encoders.items():
            text: bytes | None = getattr(record, name)
            if text is None:
                continue
            try:
                payload = encoder.encode(_parsed(name, text))
            except SerdesError as error:
                raise UsageError(f"{name}: {error}", "The schema says otherwise: `penstock schemas get`.") from None
            record = record._replace(key=payload) if name == "key" else record._replace(value=payload)
        return record

    return encode


def _parsed(name: str, text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = 'With a schema, keys and values are JSON: a text is written "so".'
        raise UsageError(f"the {name} is no JSON: {error}", hint) from None


@dataclass(frozen=True, slots=True)
class PayloadDecoder:
    """Reads keys or values, by the schemas that they name or by one that the user names."""

    serializers: Serializers
    is_key: bool
    codec: Codec | None = None

    def decode(self, record: OutputRecord) -> tuple[bytes | None, int | None]:
        """The JSON text, and the id of the schema."""
        from penstock.serdes.errors import SerdesError

        data = record.key if self.is_key else record.value
        if data is None:
            return None, None
        try:
            if self.codec is not None:
                return _text(self.codec.decode(data, b"\x00")), None
            decoded = self.serializers.decode(record.topic, self.is_key, data, record.headers)
            return _text(decoded.value), decoded.schema_id
        except SerdesError as error:
            name = "key" if self.is_key else "value"
            place = f"{record.topic}, partition {record.partition}, offset {record.offset}"
            hint = "Add --skip-errors to go on with the next record, or drop the options about schemas."
            raise CliError(f"{place}: the {name} cannot be read: {error}", hint) from None


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def payload_decoder(
    registry: RegistryClient, serializers: Serializers, wish: SchemaWish, *, is_key: bool
) -> PayloadDecoder:
    """Of `auto`, or of one schema for bare payloads."""
    if wish.schema == AUTO:
        return PayloadDecoder(serializers, is_key)
    from penstock.serdes.compilation import CodecOptions, compile_codec
    from penstock.serdes.errors import SerdesError

    assert wish.schema is not None
    with registry_errors_explained():
        place = parse_place(wish.schema)
        if wish.schema.isdecimal():
            schema = registry.schema_by_id(int(wish.schema)).schema
        elif place is not None:
            schema = find_version(registry, place).schema
        else:
            schema = wish.read()
        others = registry.referenced(schema, None if place is None else place.subject)
    try:
        return PayloadDecoder(serializers, is_key, compile_codec(schema, others, CodecOptions()))
    except SerdesError as error:
        raise UsageError(str(error)) from None
