from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from penstock.pipelines import Pipeline, Settings, Step, Topic
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.runtime.diagram import draw
from penstock.pipelines.steps import from_registry, to_registry
from penstock.pipelines.steps.registries import address_of, free_names
from tests.unit.pipelines.pieces import Nowhere


@pytest.mark.parametrize(
    ("given", "settings", "properties"),
    [
        ("http://r:1", {"url": "http://other"}, {"schema.registry.url": "http://r:1"}),
        (None, {"url": "r:1"}, {"schema.registry.url": "r:1"}),
        (
            {"schema.registry.url": "r", "basic.auth.user.info": "a:b"},
            {},
            {"schema.registry.url": "r", "schema.registry.basic.auth.user.info": "a:b"},
        ),
        (
            None,
            {"url": "r", "basic.auth.credentials.source": "SASL_INHERIT", "sasl.username": "a", "sasl.password": "b"},
            {
                "schema.registry.url": "r",
                "schema.registry.basic.auth.credentials.source": "SASL_INHERIT",
                "sasl.username": "a",
                "sasl.password": "b",
            },
        ),
    ],
)
def test_the_step_s_registry_counts_when_settings_name_one_too(
    given: str | Mapping[str, str] | None, settings: dict[str, str], properties: dict[str, str]
) -> None:
    address = address_of(given, Settings(registry=settings))
    assert dict(address.properties) == properties
    assert "b" not in repr(address).lower().replace("registryaddress", "")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "no schema registry is named"),
        ({"url": "ftp://r"}, "is not the address of a registry"),
        ({"url": "r", "basic.auth.user.info": "secret"}, "must be user:password"),
    ],
)
def test_a_reason_without_secrets_is_given_when_the_registry_cannot_be_used(
    settings: dict[str, str], said: str
) -> None:
    with pytest.raises(PipelineError, match=said) as refused:
        address_of(None, Settings(registry=settings))
    assert "secret" not in refused.value.message


def test_columns_get_names_of_their_own_when_fields_are_called_like_ours() -> None:
    fields = ["error", "Error_", "id", "ID", "source"]
    assert free_names(fields, ("source", "error")) == ["error_", "Error__", "id", "ID_", "source_"]


@pytest.mark.parametrize(
    ("step", "drawn"),
    [
        (from_registry(), "from_registry(the topic's value, latest)"),
        (from_registry("orders-value", reader=3), "from_registry(orders-value, version 3)"),
        (from_registry("k", of="key", reader='{"type": "long"}'), "from_registry(k, by a schema of its own)"),
        (to_registry("paid-value", schema_type="JSON"), "to_registry(paid-value, JSON)"),
    ],
)
def test_steps_are_drawn_with_subject_and_version(step: Step, drawn: str) -> None:
    assert drawn in draw(Pipeline("p", (Topic("orders"),), (Nowhere("a"),), (step,)))


def test_several_topics_are_refused_when_no_subject_is_given() -> None:
    pipeline = Pipeline("p", (Topic("a,b"),), (Nowhere("a"),), settings=Settings(registry={"url": "r"}))
    with pytest.raises(PipelineError, match="reads 2 topics"):
        from_registry().open(pipeline)


def test_a_pattern_is_refused_when_no_subject_is_given() -> None:
    pipeline = Pipeline("p", (Topic(re.compile("a-.*")),), (Nowhere("a"),), settings=Settings(registry={"url": "r"}))
    with pytest.raises(PipelineError, match=r"a-\.\* may be many topics"):
        from_registry().open(pipeline)


def test_no_secret_is_shown_when_steps_or_settings_are() -> None:
    registry = {"url": "http://r:1", "basic.auth.user.info": "u:secret"}
    settings = Settings(kafka={"sasl.password": "secret"}, registry=registry, spark={"spark.hadoop.key": "secret"})
    pipeline = Pipeline("p", (Topic("a"),), (Nowhere("a"),), (from_registry(registry=registry),), settings=settings)
    assert "secret" not in repr((pipeline, to_registry("b", registry="http://u:secret@r")))
