"""Clients that attack a TLS listener before they have shown who they are."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.client.connection import BlockingConnection
from penstock.client.security import client_security
from penstock.processes.server_process import find_free_port
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.security.certificates.directory import CertificateDirectory
from penstock.testing.processes import BrokerProcess
from tests.certificates import broker_settings, client_settings, new_directory
from tests.clients.support import PATIENCE_S, eventually
from tests.unit.server.tls_harness import Port, context_of, first_message

VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
MOST_ADDED_BYTES = 50 * 1000 * 1000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> CertificateDirectory:
    return new_directory(tmp_path_factory.mktemp("certificates"))


# ---------------------------------------------------------------------------------- half-finished handshakes


@contextlib.contextmanager
def half_finished(port: int, count: int, hello: bytes) -> Iterator[None]:
    """Clients from fifty addresses that never go on: silent ones, those with one byte, half a message, a whole one."""
    with contextlib.ExitStack() as stack:
        for number in range(count):
            client = stack.enter_context(socket.socket())
            client.bind((f"127.0.{number % 50}.7", 0))
            client.connect(("127.0.0.1", port))
            client.sendall((b"", hello[:1], hello[: len(hello) // 2], hello)[number % 4])
        yield


def attack(path: Path, directory: CertificateDirectory, count: int) -> int:
    """How many bytes the broker grew by while `count` clients held it up and another one was served all the same."""
    plain, tls = find_free_port(), find_free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls}"
    security = client_security(client_settings(directory))
    with BrokerProcess(
        path / "data", port=plain, config=broker_settings(directory), arguments=["--listen", listeners]
    ) as broker:
        process = psutil.Process(broker.pid)
        with BlockingConnection("localhost", tls, security=security) as served:
            served.request(VERSIONS, ApiVersionsRequest.MAX_VERSION)
            before = process.memory_info().rss
            with half_finished(tls, count, first_message(context_of(directory))):
                served.request(VERSIONS, ApiVersionsRequest.MAX_VERSION, timeout_s=PATIENCE_S)
                with BlockingConnection("localhost", tls, security=security, timeout_s=PATIENCE_S) as another:
                    another.request(VERSIONS, ApiVersionsRequest.MAX_VERSION, timeout_s=PATIENCE_S)
                eventually(lambda: process.num_fds() >= count * 3 // 4, "the broker has accepted them")
                return process.memory_info().rss - before


def test_others_are_served_when_clients_do_not_finish_their_handshakes(
    directory: CertificateDirectory, tmp_path: Path
) -> None:
    assert attack(tmp_path, directory, 600) < MOST_ADDED_BYTES


@pytest.mark.soak
def test_memory_stays_bounded_when_ten_thousand_handshakes_are_half_finished(
    directory: CertificateDirectory, tmp_path: Path
) -> None:
    assert attack(tmp_path, directory, 10_000) < MOST_ADDED_BYTES


# ---------------------------------------------------------------------------------- mutated first messages


def mutated(hello: bytes, chance: random.Random) -> bytes:
    """One of the ways in which a client's first message can be wrong."""
    data = bytearray(hello)
    for _ in range(chance.choice((1, 1, 2, 8, 40))):
        place = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[place] = chance.randrange(256)
            case 1:
                data[place] ^= 1 << chance.randrange(8)
            case 2:
                del data[place : place + chance.randrange(1, 50)]
            case 3:
                data[place:place] = chance.randbytes(chance.randrange(1, 50))
            case _:
                data[place : place + 2] = chance.choice((b"\0\0", b"\xff\xff", b"\x40\0"))
        if not data:
            return chance.randbytes(20)
    return bytes(data)


async def fuzz(directory: CertificateDirectory, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    port, context = Port(directory, client_auth="requested"), context_of(directory)
    hello = first_message(context)
    for number in range(rounds):
        transport = port.accept()
        data = mutated(hello, chance)
        cut = chance.randrange(len(data) + 1)
        transport.receive(data[:cut])
        await asyncio.sleep(0)
        if not transport.is_closing():
            transport.receive(data[cut:])
        for _ in range(3):
            await asyncio.sleep(0)
        transport.lose()
        assert not port.requests, f"seed {seed}, round {number}"
        assert port.listener.connection_count == 0
    assert (port.listener.handshakes.under_way, port.listener.handshakes.waiting) == (0, 0)
    assert port.metrics.handshakes == 0


def test_nothing_breaks_when_first_messages_are_mutated(directory: CertificateDirectory) -> None:
    asyncio.run(fuzz(directory, 1_000, seed=random.randrange(1_000_000)))


@pytest.mark.soak
def test_nothing_breaks_when_a_million_first_messages_are_mutated(directory: CertificateDirectory) -> None:
    asyncio.run(fuzz(directory, 1_000_000, seed=random.randrange(1_000_000)))


# ---------------------------------------------------------------------------------- versions of Python


def test_calls_that_had_holes_in_python_are_not_made_when_tls_is_served() -> None:
    """CVE-2024-12254: `writelines` of asyncio does not pause. CVE-2024-0397: `get_ca_certs` and `cert_store_stats` race
    with a load. We make none of these calls, so no version of Python that we run on has these holes for us.
    """
    sources = Path(__file__).parents[2] / "src/penstock"
    for folder in ("server", "security", "client"):
        for path in sorted((sources / folder).rglob("*.py")):
            text = path.read_text()
            for call in (".writelines(", ".get_ca_certs(", ".cert_store_stats(", "wrap_socket(plain, server_side"):
                assert call not in text, f"{path} calls {call}"
