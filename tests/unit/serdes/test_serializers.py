"""Which schema a value is written with, what is asked of the registry, and what is answered without asking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.registry import (
    NewSchema,
    RegistryAnswerError,
    RegistryClient,
    RegistrySettings,
    SchemaReference,
)
from penstock.schemas.schema import SchemaType
from penstock.serdes.errors import ChoiceError, PayloadError
from penstock.serdes.serializers import SchemaChoice, Serializers
from penstock.serdes.subjects import Strategy, strategy_named
from tests.fake_registry import FakeRegistry, running_registry

RECORD = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"}]}'


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture
def client(registry: FakeRegistry) -> Iterator[RegistryClient]:
    with RegistryClient(RegistrySettings.of_url(registry.url)) as opened:
        yield opened


@pytest.fixture
def serializers(client: RegistryClient) -> Serializers:
    return Serializers(client)


@pytest.mark.parametrize(
    ("strategy", "is_key", "subject"),
    [
        (Strategy.TOPIC_NAME, False, "t-value"),
        (Strategy.TOPIC_NAME, True, "t-key"),
        (Strategy.RECORD_NAME, False, "n.R"),
        (Strategy.TOPIC_RECORD_NAME, True, "t-n.R"),
        (Strategy.ASSOCIATED, False, "t-value"),
    ],
)
def test_a_text_is_registered_under_the_subject_of_its_strategy(
    registry: FakeRegistry, serializers: Serializers, strategy: Strategy, is_key: bool, subject: str
) -> None:
    choice = SchemaChoice(RECORD, strategy=strategy)
    assert serializers.peek_encoder("t", is_key, choice) is None
    encoder = serializers.encoder("t", is_key, choice)
    assert (encoder.subject, encoder.schema_id, encoder.schema_type) == (subject, 1, SchemaType.AVRO)
    assert encoder.encode({"a": 1}) == b"\x00\x00\x00\x00\x01\x02"
    kept = serializers.peek_encoder("t", is_key, choice)
    assert kept is not None
    assert kept.encode({"a": 1}) == b"\x00\x00\x00\x00\x01\x02"
    assert list(registry.subjects) == [subject]


def test_the_registrys_own_subject_is_taken_when_the_topic_has_one(
    registry: FakeRegistry, serializers: Serializers
) -> None:
    registry.associations["t"] = "theirs"
    assert serializers.encoder("t", False, SchemaChoice(RECORD, strategy=Strategy.ASSOCIATED)).subject == "theirs"


@pytest.mark.parametrize(
    "choice",
    [
        SchemaChoice(schema_id=1),
        SchemaChoice(version=1),
        SchemaChoice(is_latest=True),
        SchemaChoice(is_latest=True, subject="t-value", strategy=Strategy.RECORD_NAME),
        SchemaChoice(RECORD, auto_register=False),
    ],
)
def test_a_schema_is_found_when_it_is_registered_already(
    serializers: Serializers, client: RegistryClient, choice: SchemaChoice
) -> None:
    client.register("t-value", NewSchema(RECORD))
    payload = serializers.encode("t", False, choice, {"a": 1})
    assert payload == b"\x00\x00\x00\x00\x01\x02"
    assert serializers.peek_encoder("t", False, choice) is not None
    assert serializers.decode("t", False, payload).value == {"a": 1}
    decoded = serializers.peek_decode("t", False, payload)
    assert decoded is not None
    assert (decoded.value, decoded.schema_id) == ({"a": 1}, 1)


def test_nothing_is_registered_when_a_text_is_only_looked_up(registry: FakeRegistry, serializers: Serializers) -> None:
    with pytest.raises(RegistryAnswerError) as refused:
        serializers.encoder("t", False, SchemaChoice(RECORD, auto_register=False))
    assert refused.value.code == 40403
    assert registry.subjects == {}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (SchemaChoice(), "exactly one of"),
        (SchemaChoice(RECORD, is_latest=True), "exactly one of"),
        (SchemaChoice('"string"', strategy=Strategy.RECORD_NAME), "needs a schema that has a name"),
        (SchemaChoice(is_latest=True, strategy=Strategy.TOPIC_RECORD_NAME), "needs the text"),
        (SchemaChoice(schema_id=1, schema_type=SchemaType.JSON), "is AVRO, not JSON"),
        (SchemaChoice(schema_id=1, message="M"), "only files of Protobuf"),
    ],
)
def test_a_choice_is_refused_when_it_leads_to_no_schema(
    serializers: Serializers, client: RegistryClient, choice: SchemaChoice, message: str
) -> None:
    client.register("s", NewSchema(RECORD))
    with pytest.raises(ChoiceError, match=message):
        serializers.encoder("t", False, choice)


def test_one_record_that_does_not_fit_does_not_hinder_the_next(serializers: Serializers) -> None:
    encoder = serializers.encoder("t", False, SchemaChoice(RECORD))
    with pytest.raises(PayloadError, match="at a"):
        encoder.encode({"a": "x"})
    assert encoder.encode({"a": 1})


def test_references_are_compiled_once_when_a_schema_is_used_often(
    registry: FakeRegistry, serializers: Serializers, client: RegistryClient
) -> None:
    client.register("r", NewSchema(RECORD))
    choice = SchemaChoice('{"type":"array","items":"n.R"}', references=(SchemaReference("n.R", "r", 1),))
    for _ in range(3):
        payload = serializers.encode("t", False, choice, [{"a": 1}])
    assert serializers.decode("t", False, payload).value == [{"a": 1}]
    assert registry.asked.count("GET /subjects/r/versions/1") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RECORD_NAME", Strategy.RECORD_NAME),
        ("topic_name", Strategy.TOPIC_NAME),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", Strategy.TOPIC_RECORD_NAME),
    ],
)
def test_a_strategy_is_known_by_its_name_and_by_its_class(text: str, expected: Any) -> None:
    assert strategy_named(text) is expected
    with pytest.raises(ChoiceError, match="there are TOPIC_NAME"):
        strategy_named("MAGIC")
