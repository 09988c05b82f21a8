"""The store on a ZooKeeper that asks who is there: TLS and SASL."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import ipaddress
import itertools
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kazoo.exceptions import NoAuthError

from penstock.cluster.security_image import SecurityImage, client_key, ip_key, user_key
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import Create, Store, StoreError
from penstock.cluster.store.zookeeper.access_lists import guard_ensemble
from penstock.cluster.store.zookeeper.server_version import Server, ask_version, is_too_old
from penstock.cluster.store.zookeeper.settings import SaslSettings, TlsSettings, ZooKeeperSettings
from penstock.cluster.store.zookeeper.store import ZooKeeperStore
from penstock.core.properties import format_properties
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from penstock.testing.processes import ZooKeeperProcess, find_free_port
from tests.clients.cli_runner import Cli
from tests.integration.cluster.stranger import stranger, try_everything
from tests.integration.zookeeper import settings_for

JAAS = """
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_broker="secret";
};
"""


def write_certificate(path: Path) -> None:
    """A key and a certificate that signs itself, for 127.0.0.1 and no name."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "zookeeper")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))


def attempt(settings: ZooKeeperSettings) -> str:
    """Writes a node; returns what went wrong, or nothing."""

    async def write() -> None:
        store = await ZooKeeperStore.open(settings)
        try:
            await store.create("/mine-", ephemeral=True, sequence=True)
        finally:
            await store.close()

    try:
        asyncio.run(write())
    except StoreError as error:
        return f"{error.kind.name}: {error}"
    return ""


def test_certificates_are_checked_in_both_directions_when_tls_is_asked_for(
    tmp_path: Path, zookeeper: ZooKeeperProcess
) -> None:
    own, other, port = tmp_path / "own.pem", tmp_path / "other.pem", find_free_port()
    write_certificate(own)
    write_certificate(other)
    server = ZooKeeperProcess(
        tmp_path / "data",
        settings={
            "secureClientPort": str(port),
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(own),
            "ssl.trustStore.location": str(own),
            "authProvider.1": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        },
    )

    def secured(host: str, tls: TlsSettings) -> ZooKeeperSettings:
        return settings_for(f"{host}:{port}", connection_timeout_ms=5_000, tls=tls, session_timeout_ms=10_000)

    def refused(host: str, tls: TlsSettings) -> str:
        return attempt(settings_for(f"{host}:{port}", connection_timeout_ms=1_500, tls=tls))

    with server:
        certificate = str(own)
        trusted = TlsSettings(ca_file=certificate, certificate_file=certificate)
        assert attempt(secured("127.0.0.1", trusted)) == ""
        unchecked = TlsSettings(ca_file=certificate, certificate_file=certificate, checks_host_name=False)
        assert attempt(secured("localhost", unchecked)) == ""
        assert "Hostname mismatch" in refused("localhost", trusted)
        assert "CERTIFICATE_VERIFY_FAILED" in refused("127.0.0.1", TlsSettings(certificate_file=certificate))
        assert "cannot be read" in refused("127.0.0.1", TlsSettings(ca_file=str(tmp_path / "missing.pem")))
        assert "UNAVAILABLE" in refused("127.0.0.1", TlsSettings(ca_file=certificate, certificate_file=str(other)))


@pytest.mark.parametrize(("password", "expected"), [("secret", ""), ("wrong", "refuses our credentials")])
def test_password_is_checked_when_sasl_is_asked_for(
    tmp_path: Path, zookeeper: ZooKeeperProcess, password: str, expected: str
) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(JAAS)
    server = ZooKeeperProcess(
        tmp_path / "data",
        settings={"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
        environment={"JDK_JAVA_OPTIONS": f"-Djava.security.auth.login.config={jaas}"},
    )
    sasl = SaslSettings(mechanism="DIGEST-MD5", username="broker", password=password)
    with server:
        error = attempt(settings_for(server.connect, sasl=sasl, sets_acl=True, session_timeout_ms=10_000))
    assert expected in error
    assert bool(error) == bool(expected)


# What the brokers store of security, in every node that there is for it. A secret has the word in it.
READ_BY_ALL = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
IMAGE = SecurityImage(
    acls={
        ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL): (READ_BY_ALL,),
        ResourcePattern(ResourceType.GROUP, "billing-", PatternType.PREFIXED): (READ_BY_ALL,),
    },
    entity_configs={
        user_key("alice"): {"SCRAM-SHA-512": "secret", "producer_byte_rate": "1"},
        client_key("app", of_user="alice"): {"producer_byte_rate": "1"},
        client_key("app"): {"producer_byte_rate": "1"},
        ip_key("10.0.0.1"): {"connection_creation_rate": "1"},
    },
    tokens={"token": {"hmac": "secret"}},
    policies={"no-pii": {"tag": "pii"}},
)
BROKER_SETTINGS = {znodes.broker_config_path(1): znodes.encode_settings({"ssl.keystore.password": "secret"})}
DELTA = {znodes.delta_path(1): b"whatever has changed, a secret among it"}
SECRET_ROOTS = ("/config/users", "/config/brokers", "/delegation_token", "/penstock")


@pytest.mark.parametrize("is_guarded_later", [False, True])
def test_strangers_read_no_secret_and_change_nothing_when_access_lists_are_set(
    tmp_path: Path, zookeeper: ZooKeeperProcess, is_guarded_later: bool
) -> None:
    # Not below the node of the other tests: who makes that keeps the others out.
    connect = f"{zookeeper.connect}/guarded{'-later' if is_guarded_later else ''}"
    settings = settings_for(connect, sets_acl=not is_guarded_later, digest="broker:word", session_timeout_ms=10_000)
    nodes = {**security_nodes.nodes_of(IMAGE), **BROKER_SETTINGS, **DELTA}

    async def write() -> None:
        store = await ZooKeeperStore.open(settings)
        for path in znodes.PERSISTENT_PATHS:
            await store.ensure_path(path)
        await store.transaction([Create(path, data) for path, data in nodes.items()])
        assert await store.read_many(list(nodes))  # who made them reads them
        await store.close()

    async def look() -> None:
        stranger = await ZooKeeperStore.open(settings_for(connect, session_timeout_ms=10_000))
        paths = [*nodes, *znodes.PERSISTENT_PATHS]
        hidden = {path for path in paths if await _refusal(stranger, path)}
        assert hidden == {path for path in paths if path.startswith(SECRET_ROOTS)}
        assert not any(b"secret" in data for path, data in nodes.items() if path not in hidden)
        for root in SECRET_ROOTS:
            with pytest.raises(StoreError, match="does not let us"):
                await stranger.children(root)
        with pytest.raises(StoreError, match="does not let us"):
            await stranger.create("/mine")
        for path in paths:
            with pytest.raises(StoreError, match="does not let us"):
                await stranger.compare_and_set(path, b"", None)
            with pytest.raises(StoreError, match="does not let us"):
                await stranger.create(f"{path}/mine")
        await stranger.close()

    asyncio.run(write())
    if is_guarded_later:
        guard(tmp_path / "server.properties", connect)
    asyncio.run(look())


def guard(file: Path, connect: str) -> None:
    settings = {"zookeeper.connect": connect, "log.dirs": "unused", "penstock.zookeeper.digest": "broker:word"}
    file.write_text(format_properties(settings))
    assert "set.acl is not true" in Cli("").try_run("zookeeper", "guard", "--config", str(file)).err
    file.write_text(format_properties({**settings, "zookeeper.set.acl": "true"}))
    for _ in range(2):  # what is guarded already is no obstacle
        assert "nodes are for the brokers" in Cli("").run("zookeeper", "guard", "--config", str(file)).err


class _KilledError(Exception):
    """The process ends."""


async def guard_whole(settings: ZooKeeperSettings, steps: int | None) -> int:
    """`steps`: after so many questions the process is killed."""
    store = await ZooKeeperStore.open(settings)
    ask, left = store.connection.ask, itertools.count(steps or 0, -1)

    async def ask_until_killed(*arguments: Any, **options: Any) -> Any:
        if steps is not None and next(left) <= 0:
            raise _KilledError
        return await ask(*arguments, **options)

    store.connection.ask = ask_until_killed  # type: ignore[method-assign]
    try:
        return await guard_ensemble(store)
    finally:
        await store.close()


def test_whole_ensemble_is_closed_to_strangers_when_the_one_that_closed_it_was_killed_on_the_way(
    tmp_path: Path, zookeeper: ZooKeeperProcess
) -> None:
    """As a directory from before has it: the cluster is at the root, and no node has a list. `zookeeper` is for the
    other tests, and for a skip where there is none.
    """
    with ZooKeeperProcess(tmp_path / "zookeeper") as own:
        settings = settings_for(own.connect, digest="broker:word", session_timeout_ms=10_000)

        async def write() -> None:
            store = await ZooKeeperStore.open(settings)
            for path in (*znodes.PERSISTENT_PATHS, "/config/users/admin"):
                await store.ensure_path(path)
            await store.close()

        asyncio.run(write())
        guarded = dataclasses.replace(settings, sets_acl=True)
        with stranger(own.connect) as client:
            for steps in (1, 2, 3, 20, 40):
                with pytest.raises(_KilledError):
                    asyncio.run(guard_whole(guarded, steps))
                with pytest.raises(NoAuthError) if steps > 1 else contextlib.nullcontext():
                    client.create("/mine-", sequence=True)
            assert asyncio.run(guard_whole(guarded, None)) > 15
            assert asyncio.run(guard_whole(guarded, None)) == 0
            deeds = try_everything(client)
        assert [deed for deed in deeds.done if "/mine-" not in deed] == []
        assert "/config/topics" in deeds.read
        assert not deeds.read & {"/config/users", "/config/users/admin", "/penstock", "/penstock/log"}


async def _refusal(store: Store, path: str) -> str:
    try:
        await store.read(path)
    except StoreError as error:
        return str(error)
    return ""


def test_server_that_tests_use_is_not_too_old(zookeeper: ZooKeeperProcess) -> None:
    version = ask_version(Server((zookeeper.host, zookeeper.port), None), None)
    assert version is not None
    assert not is_too_old(version)
