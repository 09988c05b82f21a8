from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Operation,
    StoreError,
    StoreErrorKind,
)
from penstock.cluster.store.zookeeper.errors import failure, translate
from penstock.cluster.store.zookeeper.settings import ConnectString, SaslSettings, TlsSettings, ZooKeeperSettings
from penstock.cluster.store.zookeeper.store import ZooKeeperStore
from penstock.core.config.broker_config import BrokerConfig

WITHOUT_KAZOO = """
import asyncio, sys
sys.modules["kazoo"] = None
from penstock.cluster.store.zookeeper.settings import ConnectString, ZooKeeperSettings
from penstock.cluster.store.zookeeper.store import ZooKeeperStore
asyncio.run(ZooKeeperStore.open(ZooKeeperSettings(connect=ConnectString.parse("localhost"))))
"""


class NoNodeError(Exception): ...


class BadVersionError(Exception): ...


class RolledBackError(Exception): ...


class NoAuthError(Exception): ...


class RuntimeInconsistency(Exception): ...  # noqa: N818  # kazoo's name


class ConnectionLoss(Exception): ...  # noqa: N818


class SessionExpiredError(Exception): ...


@pytest.mark.parametrize(
    ("text", "hosts", "root"),
    [
        ("localhost", ("localhost:2181",), ""),
        ("a:1,b:2", ("a:1", "b:2"), ""),
        ("a:1, b/kafka", ("a:1", "b:2181"), "/kafka"),
        ("a:1/kafka/prod/", ("a:1",), "/kafka/prod"),
        ("a:1/", ("a:1",), ""),
        ("[::1]:2182,[fe80::1]", ("[::1]:2182", "[fe80::1]:2181"), ""),
    ],
)
def test_connect_string_is_taken_apart_when_well_formed(text: str, hosts: tuple[str, ...], root: str) -> None:
    assert ConnectString.parse(text) == ConnectString(hosts, root)


@pytest.mark.parametrize("text", ["", "a:b", "a:0", "a:65536", "a:1,", ":2181", "::1:2181", "a:1/x//y", "a:1/../b"])
def test_connect_string_is_refused_when_malformed(text: str) -> None:
    with pytest.raises(StoreError) as error:
        ConnectString.parse(text)
    assert error.value.kind is StoreErrorKind.BAD_PATH


@pytest.mark.parametrize(
    ("error", "is_change", "kind"),
    [
        (ConnectionLoss(), True, StoreErrorKind.OUTCOME_UNKNOWN),
        (ConnectionLoss(), False, StoreErrorKind.UNAVAILABLE),
        (RuntimeError("odd"), True, StoreErrorKind.OUTCOME_UNKNOWN),
        (SessionExpiredError(), True, StoreErrorKind.SESSION_ENDED),
        (NoNodeError(), False, StoreErrorKind.NO_NODE),
    ],
)
def test_outcome_is_unknown_when_no_server_has_refused_a_change(
    error: Exception, is_change: bool, kind: StoreErrorKind
) -> None:
    assert translate(error, "/a", is_change=is_change).kind is kind


@pytest.mark.parametrize(("error", "expected"), [(NoAuthError(), True), (ConnectionLoss(), False)])
def test_refusal_of_one_node_is_told_from_a_server_that_is_away(error: Exception, expected: bool) -> None:
    assert translate(error, "/a", is_change=False).is_refusal is expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["/a", None, True], None),
        ([RolledBackError(), BadVersionError(), RuntimeInconsistency()], (StoreErrorKind.BAD_VERSION, "/b")),
        ([NoNodeError(), RuntimeInconsistency(), RuntimeInconsistency()], (StoreErrorKind.NO_NODE, "/")),
        ([RolledBackError(), RolledBackError(), NoNodeError()], (StoreErrorKind.NO_NODE, "/c")),
        ([RolledBackError(), RolledBackError(), RolledBackError()], (StoreErrorKind.OUTCOME_UNKNOWN, "/a")),
    ],
)
def test_operation_to_blame_is_named_when_a_transaction_fails(
    answers: list[object], expected: tuple[StoreErrorKind, str] | None
) -> None:
    operations: list[Operation] = [Create("/a"), CompareAndSet("/b", b"", 1), Check("/c", 0)]
    error = failure(answers, operations)
    assert (error and (error.kind, error.path)) == expected


def test_settings_follow_from_the_brokers_configuration_when_zookeeper_is_named() -> None:
    plain = BrokerConfig.parse({"zookeeper.connect": "a:1,b/kafka", "zookeeper.session.timeout.ms": "2000"})
    assert ZooKeeperSettings.of(plain.zookeeper) == ZooKeeperSettings(
        connect=ConnectString(("a:1", "b:2181"), "/kafka"), session_timeout_ms=2000, connection_timeout_ms=2000
    )
    secured = BrokerConfig.parse(
        {
            "zookeeper.connect": "a",
            "zookeeper.connection.timeout.ms": "5",
            "zookeeper.set.acl": "true",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": "ca.pem",
            "zookeeper.ssl.keystore.location": "own.pem",
            "zookeeper.ssl.keystore.password": "secret",
            "zookeeper.ssl.endpoint.identification.algorithm": "",
            "penstock.zookeeper.sasl.mechanism": "DIGEST-MD5",
            "penstock.zookeeper.sasl.username": "alice",
            "penstock.zookeeper.sasl.password": "secret",
        }
    )
    assert ZooKeeperSettings.of(secured.zookeeper) == ZooKeeperSettings(
        connect=ConnectString(("a:2181",), ""),
        connection_timeout_ms=5,
        sets_acl=True,
        tls=TlsSettings(ca_file="ca.pem", certificate_file="own.pem", key_password="secret", checks_host_name=False),
        sasl=SaslSettings(mechanism="DIGEST-MD5", username="alice", password="secret"),
    )


def test_kazoo_is_not_imported_when_only_the_store_is() -> None:
    code = "import sys, penstock.cluster.store.zookeeper.store; sys.exit('kazoo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_error_names_the_extra_when_kazoo_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_KAZOO], check=False, capture_output=True, text=True)
    assert "pip install 'penstock[zookeeper]'" in done.stderr.splitlines()[-1]


def naming(servers: str, connection_timeout_ms: int) -> ZooKeeperSettings:
    return ZooKeeperSettings(connect=ConnectString.parse(servers), connection_timeout_ms=connection_timeout_ms)


@pytest.mark.parametrize("server", ["zk..example", "z" * 64])
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_open_fails_as_for_an_unknown_host_when_no_host_can_have_the_name(server: str) -> None:
    with pytest.raises(StoreError) as caught:
        asyncio.run(ZooKeeperStore.open(naming(server, connection_timeout_ms=100)))
    assert caught.value.kind is StoreErrorKind.UNAVAILABLE
    assert str(caught.value) == f"{server}:2181: no answer within 100 ms"


def test_other_servers_are_tried_when_no_host_can_have_the_name_of_one() -> None:
    async def connect() -> None:
        is_tried = asyncio.Event()

        async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            is_tried.set()
            writer.close()

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            opening = asyncio.ensure_future(ZooKeeperStore.open(naming(f"zk..example,127.0.0.1:{port}", 60_000)))
            await asyncio.wait_for(is_tried.wait(), 10)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)

    asyncio.run(connect())
