"""What an operator is told while no broker answers, and when callers are told so."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket

import pytest

from penstock.client.brokers import BrokersUnreachableError, LoginRefusedError
from penstock.client.connection.core import ConnectionCore
from penstock.client.connection.frames import ConnectionClosedError
from penstock.client.routes.attempts import Attempts
from penstock.client.routes.first_contact import hint_for, wait_for_contact
from penstock.client.routes.links import NobodyAnswersError

SERVERS = [("one", 9092), ("two", 9093)]


def wrapped(text: str) -> Exception:
    error = BrokersUnreachableError("no way for metadata within 1.5 s")
    error.__cause__ = NobodyAnswersError(text)
    return error


def test_first_failure_is_told_with_addresses_and_reason_when_no_broker_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask(_: float) -> None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    async def wait_for_failure() -> None:
        failed = asyncio.Event()
        waiting = asyncio.create_task(wait_for_contact(ask, SERVERS, failed.set))
        await failed.wait()
        waiting.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(wait_for_failure())
    (record,) = caplog.records
    told = vars(record)
    assert (told["servers"], told["error"]) == ("one:9092,two:9093", "Connection refused")
    assert "is the broker up" in told["hint"]


def test_contact_ends_at_once_when_a_broker_refuses_the_login() -> None:
    async def ask(_: float) -> None:
        raise LoginRefusedError("the password is wrong")

    with pytest.raises(LoginRefusedError, match="the password is wrong"):
        asyncio.run(wait_for_contact(ask, SERVERS))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "does not resolve"),
        (wrapped("no broker answers at x:1 (Name or service not known)"), "does not resolve"),
        (wrapped("no broker answers at x:1 (the port speaks HTTP, not Kafka's protocol)"), "9092"),
        (wrapped("no broker answers at x:1 (the port asks for TLS)"), "security.protocol=SSL"),
        (ConnectionClosedError("the broker closed the connection"), "--command-config"),
        (TimeoutError(), "bootstrap.servers"),
    ],
)
def test_hint_says_what_to_do_when_brokers_cannot_be_reached(error: Exception, words: str) -> None:
    assert words in hint_for(error)


@pytest.mark.parametrize(("prefix", "words"), [(b"HTTP", "speaks HTTP"), (b"\x15\x03\x03\x00", "asks for TLS")])
def test_answer_names_what_the_port_speaks_when_it_is_not_kafkas_protocol(prefix: bytes, words: str) -> None:
    with pytest.raises(ConnectionClosedError, match=words):
        ConnectionCore("client").frame_size(prefix)


def test_tries_end_before_the_time_is_over_when_no_broker_is_there_for_longer_than_the_patience() -> None:
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        raise NobodyAnswersError("no broker answers at one:9092 (Connection refused)")

    with pytest.raises(BrokersUnreachableError, match="one:9092"):
        asyncio.run(Attempts("metadata", retry=True, patience_s=0.01).run(attempt, 3600))
    assert tries > 1
