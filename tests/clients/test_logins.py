"""Real clients log in with each mechanism that their package has."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from penstock.client.connection import BlockingConnection, Connection, LoginRefusedError
from penstock.client.security import ClientSecurity, client_security
from penstock.protocol.messages.metadata import MetadataRequest
from tests.clients.issuer import CLIENT_SECRET
from tests.clients.sasl_broker import MECHANISMS, PASSWORD, USER, SaslBroker
from tests.clients.support import eventually

# Logins are the same without TLS: one shows that they go, and the raw client tries each.
WAYS = [("SASL_PLAINTEXT", "SCRAM-SHA-256"), *(("SASL_SSL", mechanism) for mechanism in MECHANISMS)]


def confluent_settings(
    broker: SaslBroker, mechanism: str, password: str = PASSWORD, protocol: str = "SASL_PLAINTEXT"
) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.servers(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(broker.authority),
        "sasl.mechanism": mechanism,
        "log_level": 0,
    }
    if mechanism == "OAUTHBEARER":
        return {**settings, "oauth_cb": lambda _: (broker.token(), 2**31)}
    return {**settings, "sasl.username": USER, "sasl.password": password}


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_confluent_kafka_writes_and_reads_when_it_logs_in(
    sasl_broker: SaslBroker, protocol: str, mechanism: str
) -> None:
    settings = confluent_settings(sasl_broker, mechanism, protocol=protocol)
    write_and_read_by_confluent_kafka(settings, f"confluent-{protocol}-{mechanism}")


def test_confluent_kafka_writes_and_reads_when_the_issuer_gives_it_a_token(sasl_broker: SaslBroker) -> None:
    """OIDC: the client shows its id and secret to the issuer, and the issuer's token to the broker."""
    settings = {
        "bootstrap.servers": sasl_broker.servers("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(sasl_broker.authority),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": sasl_broker.issuer.token_url,
        "sasl.oauthbearer.client.id": USER,
        "sasl.oauthbearer.client.secret": CLIENT_SECRET,
        "log_level": 0,
    }
    write_and_read_by_confluent_kafka(settings, "confluent-oidc")


def write_and_read_by_confluent_kafka(settings: dict[str, Any], topic: str) -> None:
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


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_kafka_python_writes_and_reads_when_it_logs_in(sasl_broker: SaslBroker, protocol: str, mechanism: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return sasl_broker.token()

    settings: dict[str, Any] = {
        "bootstrap_servers": sasl_broker.servers(protocol),
        "security_protocol": protocol,
        "ssl_cafile": str(sasl_broker.authority),
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    else:
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    topic = f"kafka-python-{protocol}-{mechanism}"
    producer = KafkaProducer(**settings)
    producer.send(topic, b"one").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **settings)
    assert next(consumer).value == b"one"
    consumer.close()


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_aiokafka_writes_and_reads_when_it_logs_in(sasl_broker: SaslBroker, protocol: str, mechanism: str) -> None:
    asyncio.run(_use_aiokafka(sasl_broker, protocol, mechanism))


async def _use_aiokafka(broker: SaslBroker, protocol: str, mechanism: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return broker.token()

    settings: dict[str, Any] = {
        "bootstrap_servers": broker.servers(protocol),
        "security_protocol": protocol,
        "ssl_context": ssl.create_default_context(cafile=str(broker.authority)),
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    else:
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    topic = f"aiokafka-{protocol}-{mechanism}"
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(topic, b"one")
    async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
        assert (await asyncio.wait_for(consumer.getone(), 30)).value == b"one"


def own_security(broker: SaslBroker, protocol: str, mechanism: str, **more: str) -> ClientSecurity:
    """From Kafka's client properties."""
    modules = "org.apache.kafka.common.security"
    if mechanism == "OAUTHBEARER":
        module = f'oauthbearer.OAuthBearerLoginModule required clientId="{USER}" clientSecret="{CLIENT_SECRET}"'
    else:
        name = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        module = f'{name} required username="{USER}" password="{PASSWORD}"'
    properties = {
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.authority),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{modules}.{module};",
        "sasl.oauthbearer.token.endpoint.url": broker.issuer.token_url,
    }
    return client_security({**properties, **more})


def open_and_ask(address: tuple[str, int], security: ClientSecurity) -> None:
    """By both of our connections."""
    with BlockingConnection(*address, security=security) as connection:
        assert connection.request(MetadataRequest(topics=[]), 12).brokers
    asyncio.run(_open_and_ask(address, security))


async def _open_and_ask(address: tuple[str, int], security: ClientSecurity) -> None:
    async with await Connection.open(*address, security=security) as connection:
        assert (await connection.request(MetadataRequest(topics=[]), 12)).brokers


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_own_connections_are_served_when_their_properties_name_a_login(
    sasl_broker: SaslBroker, mechanism: str
) -> None:
    open_and_ask(sasl_broker.tls_address, own_security(sasl_broker, "SASL_SSL", mechanism))


def test_our_own_connections_say_why_when_they_have_nothing_to_show(sasl_broker: SaslBroker, tmp_path: Path) -> None:
    """What failed in a step that takes long, as reading a token, ended a command with a traceback."""
    missing = {"sasl.oauthbearer.token.endpoint.url": (tmp_path / "none").as_uri()}
    security = own_security(sasl_broker, "SASL_SSL", "OAUTHBEARER", **missing)
    with pytest.raises(LoginRefusedError, match="cannot be read"):
        BlockingConnection(*sasl_broker.tls_address, security=security)
    with pytest.raises(LoginRefusedError, match="cannot be read"):
        asyncio.run(_open_and_ask(sasl_broker.tls_address, security))
