"""A registry inside a program, as its users have it: beside a broker, a secure one, and on their own loop."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

import penstock
from penstock.testing.pytest_plugin import KafkaFixture

TEXT = '{"type":"record","name":"Order","fields":[]}'


def test_the_fixture_is_a_registry_that_confluent_s_client_takes_for_its_own(
    kafka: KafkaFixture, schema_registry: penstock.Registry
) -> None:
    topic = kafka.topic()
    client = SchemaRegistryClient(schema_registry.client_config)
    given = client.register_schema(f"{topic}-value", Schema(TEXT, "AVRO"))
    assert client.get_schema(given).schema_str == TEXT


def test_a_registry_beside_a_secure_broker_logs_in_as_its_administrator(
    penstock_secure_broker: penstock.Broker,
) -> None:
    with penstock.Registry(penstock_secure_broker) as registry:
        client = SchemaRegistryClient(registry.client_config)
        given = client.register_schema("orders-value", Schema(TEXT, "AVRO"))
        assert client.get_latest_version("orders-value").schema_id == given


def test_callers_log_in_by_what_the_brokers_know_of_them(penstock_secure_broker: penstock.Broker) -> None:
    login = penstock_secure_broker.client_config
    config: dict[str, str | int | float | bool] = {
        "authentication.method": "BASIC",
        "penstock.http.broker.logins": True,
    }
    with penstock.Registry(penstock_secure_broker, config=config) as registry:
        words = f"{login['sasl.username']}:{login['sasl.password']}"
        known = SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": words})
        assert known.get_subjects() is not None
        wrong = SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "admin:wrong"})
        with pytest.raises(SchemaRegistryError) as refused:
            wrong.get_subjects()
        assert refused.value.http_status_code == 401


def test_a_registry_shares_the_loop_of_its_program() -> None:
    async def main() -> None:
        async with penstock.AsyncBroker() as broker, penstock.AsyncRegistry(broker) as registry:
            client = SchemaRegistryClient({"url": registry.url})
            given = await asyncio.to_thread(client.register_schema, "s", Schema(TEXT, "AVRO"))
            assert given == 1

    asyncio.run(main())


def test_a_registry_that_does_not_run_says_so() -> None:
    registry = penstock.Registry("127.0.0.1:1")
    with pytest.raises(RuntimeError, match="not running"):
        _ = registry.url
    registry.stop()
