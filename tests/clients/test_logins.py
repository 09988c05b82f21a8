"""Real clients log in with each mechanism that their package has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.clients.sasl_broker import MECHANISMS, PASSWORD, USER, SaslBroker
from tests.clients.support import eventually


def confluent_settings(broker: SaslBroker, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "log_level": 0,
    }
    if mechanism == "OAUTHBEARER":
        return {**settings, "oauth_cb": lambda _: (broker.token(), 2**31)}
    return {**settings, "sasl.username": USER, "sasl.password": password}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_writes_and_reads_when_it_logs_in(sasl_broker: SaslBroker, mechanism: str) -> None:
    settings = confluent_settings(sasl_broker, mechanism)
    topic = f"confluent-{mechanism}"
    producer = Producer(settings)
    producer.produce(topic, b"one")
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"one"
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_confluent_kafka_is_refused_when_the_password_is_wrong(sasl_broker: SaslBroker, mechanism: str) -> None:
    errors: list[str] = []
    settings = confluent_settings(sasl_broker, mechanism, "wrong") | {
        "error_cb": lambda error: errors.append(error.name())
    }
    admin = AdminClient(settings)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    eventually(lambda: admin.poll(0.1) >= 0 and "_AUTHENTICATION" in errors, "the login is refused")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_and_reads_when_it_logs_in(sasl_broker: SaslBroker, mechanism: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return sasl_broker.token()

    settings: dict[str, Any] = {
        "bootstrap_servers": sasl_broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    else:
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    topic = f"kafka-python-{mechanism}"
    producer = KafkaProducer(**settings)
    producer.send(topic, b"one").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **settings)
    assert next(consumer).value == b"one"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes_and_reads_when_it_logs_in(sasl_broker: SaslBroker, mechanism: str) -> None:
    asyncio.run(_use_aiokafka(sasl_broker, mechanism))


async def _use_aiokafka(broker: SaslBroker, mechanism: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return broker.token()

    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    else:
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    topic = f"aiokafka-{mechanism}"
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(topic, b"one")
    async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
        assert (await asyncio.wait_for(consumer.getone(), 30)).value == b"one"
