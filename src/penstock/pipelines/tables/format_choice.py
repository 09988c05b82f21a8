"""How the keys or the values of a topic are decoded: by the registry's subject, else by what a sample of records is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.client.registry import RegisteredSchema, RegistryAnswerError, RegistryClient
from penstock.core.words.plurals import plural
from penstock.pipelines.errors import TableError
from penstock.pipelines.payloads.formats import (
    BYTES,
    TEXT,
    PayloadFormat,
    PayloadKind,
    ReaderSchema,
    RegistryAddress,
    json_format,
)
from penstock.pipelines.payloads.spark_types import spark_type
from penstock.pipelines.tables.sampling import MOST_SCHEMAS, Objects, Sample, is_text, named_schemas, read_objects
from penstock.pipelines.tables.type_inference import Inference
from penstock.serdes.columns.payloads import SchemaKey

# The note of a topic without records.
EMPTY = "bytes, because the topic is empty"


class Chosen(NamedTuple):
    format: PayloadFormat
    note: str  # where it comes from


@dataclass(frozen=True, slots=True)
class Registry:
    """A client, and the address by which tasks open theirs."""

    client: RegistryClient
    address: RegistryAddress

    def of_subject(self, subject: str) -> Chosen | None:
        """By the latest version; None where there is no such subject. Raises RegistryClientError."""
        try:
            latest = self.client.latest(subject)
        except RegistryAnswerError as error:
            if error.is_not_found:
                return None
            raise
        note = f"{_KINDS.get(latest.schema_type, latest.schema_type)} schema {latest.id}"
        return Chosen(self._format(latest, subject), f"{note}, version {latest.version} of subject {subject}")

    def of_schemas(self, keys: list[SchemaKey]) -> Chosen | None:
        """By the schemas that records name, where the registry knows all of them. Raises RegistryClientError."""
        try:
            known = {
                key: self.client.schema_by_id(key) if isinstance(key, int) else self.client.schema_by_guid(key)
                for key in keys
            }
        except RegistryAnswerError as error:
            if error.is_not_found:
                return None
            raise
        if len({_identity(each) for each in known.values()}) > 1:
            several = PayloadFormat(PayloadKind.REGISTRY, self.address)
            return Chosen(several, f"JSON text, because records have {len(known)} schemas of different things")
        newest = max(known, key=lambda key: (isinstance(key, int), key if isinstance(key, int) else 0, str(key)))
        return Chosen(self._format(known[newest], None), f"schema {newest}, which records name")

    def _format(self, schema: RegisteredSchema, subject: str | None) -> PayloadFormat:
        others = self.client.referenced(schema.schema, subject)
        return PayloadFormat(PayloadKind.REGISTRY, self.address, subject, ReaderSchema(schema, others))


_KINDS = {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON"}


def _identity(schema: RegisteredSchema) -> tuple[str, str]:
    """The common part of two versions of a schema."""
    if schema.schema_type != "AVRO":
        return schema.schema_type, ""
    try:
        parsed: Any = json.loads(schema.text)
    except ValueError:
        return schema.schema_type, ""
    named = parsed if isinstance(parsed, dict) else {}
    return schema.schema_type, f"{named.get('namespace', '')}.{named.get('name', '')}"


def choose_key(topic: str, registry: Registry | None, sample: Callable[[], Sample]) -> Chosen:
    """Raises RegistryClientError, FetchError."""
    by_schema = registry.of_subject(f"{topic}-key") if registry is not None else None
    if by_schema is not None:
        return by_schema
    payloads = sample()
    return _by_frames(payloads, registry, is_key=True) or Chosen(
        TEXT if is_text(payloads.keys.to_pylist()) else BYTES, ""
    )


def choose_value(topic: str, subject: str | None, registry: Registry | None, sample: Callable[[], Sample]) -> Chosen:
    """`subject` is what the user has named. Raises TableError, RegistryClientError, FetchError."""
    if subject is not None and registry is None:
        raise TableError(f"topic {topic} has the subject {subject}, and no registry is given", "Name the registry.")
    by_schema = registry.of_subject(subject or f"{topic}-value") if registry is not None else None
    if by_schema is None and subject is not None:
        raise TableError(f"the registry has no subject {subject}, which is to describe topic {topic}")
    if by_schema is not None:
        return by_schema
    found = sample()
    return _by_frames(found, registry, is_key=False) or _by_content(found)


def _by_frames(sample: Sample, registry: Registry | None, *, is_key: bool) -> Chosen | None:
    if registry is None:
        return None
    keys = named_schemas(sample.payloads(is_key=is_key), sample.schema_headers(is_key=is_key))
    return registry.of_schemas(keys) if 0 < len(keys) <= MOST_SCHEMAS else None


def _by_content(sample: Sample) -> Chosen:
    from pyspark.sql.types import StructType

    objects = read_objects(sample.values.to_pylist())
    if not objects.is_most:
        return Chosen(BYTES, _why_bytes(sample, objects))
    inference = Inference()
    for each in objects.found:
        inference.add(each)
    kind = inference.type()
    if not kind.num_fields:
        return Chosen(BYTES, "bytes, because records are empty JSON objects")
    left_out = f", without {len(inference.left_out)} or more further members" if inference.left_out else ""
    columns = spark_type(kind)
    assert isinstance(columns, StructType)
    odd = ""
    if objects.others:
        count = len(objects.found) + len(objects.others)
        place = _place(sample, objects.others[0])
        odd = f"; {len(objects.others)} of {count} are no JSON objects, as {place}"
    return Chosen(json_format(columns), f"inferred from {plural(len(objects.found), 'record')}{left_out}{odd}")


def _why_bytes(sample: Sample, objects: Objects) -> str:
    if not objects.others:
        return "bytes, because all values are null" if len(sample) else EMPTY
    first, *more = objects.others
    count = len(objects.found) + len(objects.others)
    rest = f", nor are {len(more)} more of {count}" if more else ""
    return f"bytes: {_place(sample, first)} is no JSON object{rest}"


def _place(sample: Sample, row: int) -> str:
    return f"partition {sample.partitions[row]} offset {sample.offsets[row]}"
