"""Avro's Java library as the judge of ours: the same texts, the same verdicts, the same paths and messages."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pyspark

from apache_kafka.jars import find_java
from penstock.schemas.parsing import parse
from penstock.schemas.schema import InvalidSchemaError, ParsedSchema, Policy, SchemaType
from tests.interop.schemas.avro_schemas import pairs

# Some seeds bring a name that is defined twice, in a namespace and outside of it, and used inside of the inner
# definition. By Avro's specification it is the inner one; Java, which has not yet read that, takes the outer one.
SEED, COUNT = 20, 5_000
JUDGE = Path(__file__).with_name("AvroJudge.java")
# Spark brings the library.
JARS = Path(pyspark.__file__).parent / "jars"


def judged(schemas: list[tuple[str, str]]) -> list[list[str]]:
    command = [find_java("java"), "-cp", f"{JARS}/*", str(JUDGE)]
    asked = "".join(f"{reader}\n{writer}\n" for reader, writer in schemas)
    ended = subprocess.run(command, input=asked.encode(), capture_output=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    lines = ended.stdout.decode().split("\n")
    return [lines[index : index + 3] for index in range(0, 3 * len(schemas), 3)]


def parsed_or_none(text: str) -> ParsedSchema | None:
    try:
        return parse(SchemaType.AVRO, text)
    except InvalidSchemaError:
        return None


def verdict(reader: ParsedSchema, writer: ParsedSchema) -> str:
    differences = reader.differences_from(writer, Policy.STRICT)
    if any(each.kind == "AMBIGUOUS_ALIAS" for each in differences):
        return "ambiguous"
    return "".join(f"{each.kind} {each.path} {each.additional_info}\t" for each in differences)


def test_texts_and_verdicts_are_those_of_avros_library() -> None:
    schemas = list(pairs(SEED, COUNT))
    seen: Counter[str] = Counter()
    for texts, (*theirs, their_verdict) in zip(schemas, judged(schemas), strict=True):
        ours = [parsed_or_none(text) for text in texts]
        for text, schema, their_text in zip(texts, ours, theirs, strict=True):
            if schema is not None and their_text == "refused":
                # We find a record without a namespace by its bare name inside of another namespace. Java does so too,
                # but not while it reads the record itself.
                assert parse(SchemaType.AVRO, schema.canonical_text).canonical_text == schema.canonical_text, text
                seen["we took alone"] += 1
            else:
                assert (schema.canonical_text if schema is not None else "refused") == their_text, text
                seen["refused" if schema is None else "taken"] += 1
        reader, writer = ours
        if reader is not None and writer is not None and "refused" not in theirs:
            assert verdict(reader, writer) == their_verdict, texts
            seen["compatible" if not their_verdict else "incompatible"] += 1
    assert seen["we took alone"] < COUNT // 500
    assert min(seen["taken"], seen["refused"], seen["compatible"], seen["incompatible"]) > COUNT // 20
