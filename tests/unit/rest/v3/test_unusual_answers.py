"""Handlers of v3, when a broker answers what no broker should, or a body says a thing twice."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from penstock.client.brokers import Brokers
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.rest.errors import RestError
from penstock.rest.v3.calls import Call
from penstock.rest.v3.handlers.configs import get_topic_config, list_topic_configs
from penstock.rest.v3.handlers.topics import create_topic
from penstock.rest.v3.resource_urls import ResourceUrl
from tests.unit.admin.scripted import ScriptedBrokers


def call(brokers: ScriptedBrokers, body: bytes = b"") -> Call:
    cluster = ResourceUrl("http://proxy/v3/clusters/c", "crn:///kafka=c")
    return Call(cast("Brokers", brokers), "c", cluster, {"topic_name": "t", "name": "retention.ms"}, {}, body)


OTHER = DescribeConfigsResult(
    resource_type=2, resource_name="other", configs=[DescribeConfigsResourceResult(name="retention.ms", value="1")]
)


@pytest.mark.parametrize("results", [[], [OTHER]])
def test_topic_has_no_settings_when_the_broker_answers_without_it(results: list[DescribeConfigsResult]) -> None:
    brokers = ScriptedBrokers({DescribeConfigsRequest: DescribeConfigsResponse(results=results)})
    assert asyncio.run(list_topic_configs(call(brokers))).data == []
    with pytest.raises(RestError, match=r"Config retention\.ms cannot be found for TOPIC t") as caught:
        asyncio.run(get_topic_config(call(brokers)))
    assert caught.value.code == 404


def test_broker_gets_both_values_when_a_body_names_a_setting_twice() -> None:
    answer = CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])
    brokers = ScriptedBrokers({CreateTopicsRequest: answer})
    configs = [{"name": "retention.ms", "value": None}, {"name": "retention.ms", "value": "1"}]
    asyncio.run(create_topic(call(brokers, json.dumps({"topic_name": "t", "configs": configs}).encode())))
    ((_, request),) = brokers.sent
    assert [(row.name, row.value) for row in request.topics[0].configs] == [
        ("retention.ms", None),
        ("retention.ms", "1"),
    ]
