"""What clients do with Kerberos, each in a process of its own: realm, tickets and keytab come from the environment.

    python -m tests.interop.security.kerberos_client TASK BOOTSTRAP SUBJECT [CA FILE]

The subject is a topic, or for tickets the name of the service. A client that has a CA file speaks TLS. What the task
found out is printed.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.client.connection import BlockingConnection
from penstock.client.security import client_security
from penstock.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest

SERVICE = "kafka"
PATIENCE_S = 30
SPOILT = 60
_NO_LAYER = bytes((1, 0, 0, 0))


class Where(NamedTuple):
    bootstrap: str
    subject: str
    ca: str | None

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)

    @property
    def protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.ca is None else "SASL_SSL"

    def connect(self) -> BlockingConnection:
        """Without a login."""
        trusted = {} if self.ca is None else {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        protocol = "PLAINTEXT" if self.ca is None else "SSL"
        return BlockingConnection(*self.address, security=client_security({"security.protocol": protocol, **trusted}))


def use_kafka_python(where: Where) -> str:
    from kafka import KafkaConsumer, KafkaProducer

    settings: dict[str, Any] = {
        "bootstrap_servers": where.bootstrap,
        "security_protocol": where.protocol,
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": SERVICE,
        "ssl_cafile": where.ca,
    }
    producer = KafkaProducer(**settings)
    producer.send(where.subject, b"by kafka-python").get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        where.subject, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_S * 1000, **settings
    )
    value: bytes = next(consumer).value
    consumer.close()
    return value.decode()


def use_aiokafka(where: Where) -> str:
    return asyncio.run(_use_aiokafka(where))


async def _use_aiokafka(where: Where) -> str:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    settings: dict[str, Any] = {
        "bootstrap_servers": where.bootstrap,
        "security_protocol": where.protocol,
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": SERVICE,
        "ssl_context": None if where.ca is None else ssl.create_default_context(cafile=where.ca),
    }
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(where.subject, b"by aiokafka")
    async with AIOKafkaConsumer(where.subject, auto_offset_reset="earliest", **settings) as consumer:
        return str((await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value.decode())


def first_token(where: Where, service: str) -> tuple[Any, bytes]:
    """A context and its ticket for the service."""
    import gssapi

    target = gssapi.Name(f"{service}@{where.address[0]}", gssapi.NameType.hostbased_service)
    context = gssapi.SecurityContext(name=target, usage="initiate")
    return context, context.step()


def authenticate(connection: BlockingConnection, token: bytes) -> Any:
    return connection.request(SaslAuthenticateRequest(auth_bytes=token), 1)


def show(where: Where, token: bytes) -> int:
    """The broker's answer to a ticket on a new connection."""
    with where.connect() as connection:
        assert connection.request(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
        return int(authenticate(connection, token).error_code)


def show_a_ticket(where: Where) -> str:
    return str(show(where, first_token(where, where.subject)[1]))


def show_a_ticket_twice(where: Where) -> str:
    _, token = first_token(where, where.subject)
    return f"{show(where, token)} {show(where, token)}"


def show_spoilt_tickets(where: Where) -> str:
    """The broker's answers, each once. A change that nobody looks at leaves a ticket good, for one login."""
    chance = random.Random(7)
    _, token = first_token(where, where.subject)
    answers = {show(where, token[:length]) for length in (0, 1, 2, 20, len(token) // 2, len(token) - 1)}
    for _ in range(SPOILT):
        spoilt = bytearray(token)
        for _ in range(chance.randint(1, 3)):
            spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        answers.add(show(where, bytes(spoilt)))
        answers.add(show(where, chance.randbytes(chance.randint(1, 2000))))
    return " ".join(map(str, sorted(answers)))


def act_as_admin(where: Where) -> str:
    """Who the broker takes a client for that names another user in the last token; tokens have an owner."""
    context, token = first_token(where, where.subject)
    with where.connect() as connection:
        assert connection.request(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
        answer = authenticate(connection, token)
        context.step(answer.auth_bytes)
        offered = authenticate(connection, b"")
        assert context.unwrap(offered.auth_bytes).message[0] == _NO_LAYER[0]
        last = authenticate(connection, context.wrap(_NO_LAYER + b"admin", False).message)
        assert last.error_code == 0
        return str(connection.request(CreateDelegationTokenRequest(), 3).principal_name)


TASKS: dict[str, Callable[[Where], str]] = {
    "kafka-python": use_kafka_python,
    "aiokafka": use_aiokafka,
    "ticket": show_a_ticket,
    "ticket-twice": show_a_ticket_twice,
    "tickets-spoilt": show_spoilt_tickets,
    "act-as-admin": act_as_admin,
}


if __name__ == "__main__":
    task, bootstrap, subject, *ca = sys.argv[1:]
    print(TASKS[task](Where(bootstrap, subject, ca[0] if ca else None)))
