"""The settings of the connection to ZooKeeper. Knows nothing of kazoo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.cluster.store.interface import StoreError, StoreErrorKind, check_path
from penstock.core.config.sections import ZooKeeperSection

_DEFAULT_PORT = 2181


class ConnectString(NamedTuple):
    """`host:port,host:port/chroot` taken apart. `root` is the prefix of every path: empty, or `/chroot`."""

    hosts: tuple[str, ...]
    root: str

    @classmethod
    def parse(cls, text: str) -> ConnectString:
        """Raises StoreError."""
        servers, slash, chroot = text.partition("/")
        root = f"/{chroot}".rstrip("/") if slash else ""
        if root:
            check_path(root)
        hosts = tuple(_with_port(each.strip()) for each in servers.split(","))
        return cls(hosts, root)

    def whole(self, path: str) -> str:
        """The path as ZooKeeper knows it."""
        return self.root + path if path != "/" else self.root or "/"

    def own(self, whole: str) -> str:
        """The path as users of the store know it."""
        return whole.removeprefix(self.root) or "/"


def _with_port(server: str) -> str:
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):  # no port; an IPv6 address has its colons in brackets
        host, port = server, str(_DEFAULT_PORT)
    is_bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not host or is_bare_ipv6 or not port.isdecimal() or not 0 < int(port) < 65_536:
        detail = f"{server!r} is not HOST:PORT; expected HOST:PORT,HOST:PORT/CHROOT"
        raise StoreError(StoreErrorKind.BAD_PATH, "zookeeper.connect", detail)
    return f"{host}:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """PEM files. Without `ca_file` the system's certificates are trusted."""

    ca_file: str | None = None
    certificate_file: str | None = None  # with the key in it, or in `key_file`
    key_file: str | None = None
    key_password: str | None = None
    checks_host_name: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    mechanism: str  # DIGEST-MD5 or GSSAPI
    service: str = "zookeeper"
    username: str | None = None
    password: str | None = None
    keytab: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    connect: ConnectString
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    max_in_flight: int = 100
    sets_acl: bool = False
    digest: str | None = None  # user:password
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @classmethod
    def of(cls, section: ZooKeeperSection) -> ZooKeeperSettings:
        """Raises StoreError when the connect string is malformed."""
        assert section.zookeeper_connect is not None
        tls, sasl = None, None
        if section.zookeeper_ssl_client_enable:
            tls = TlsSettings(
                ca_file=section.zookeeper_ssl_truststore_location,
                certificate_file=section.zookeeper_ssl_keystore_location,
                key_password=section.zookeeper_ssl_keystore_password,
                checks_host_name=bool(section.zookeeper_ssl_endpoint_identification_algorithm),
            )
        if section.penstock_zookeeper_sasl_mechanism:
            sasl = SaslSettings(
                mechanism=section.penstock_zookeeper_sasl_mechanism,
                username=section.penstock_zookeeper_sasl_username or None,
                password=section.penstock_zookeeper_sasl_password,
                keytab=section.penstock_zookeeper_sasl_keytab or None,
            )
        return cls(
            connect=ConnectString.parse(section.zookeeper_connect),
            session_timeout_ms=section.zookeeper_session_timeout_ms,
            connection_timeout_ms=section.connection_patience_ms,
            max_in_flight=section.zookeeper_max_in_flight_requests,
            sets_acl=section.zookeeper_set_acl,
            digest=section.penstock_zookeeper_digest,
            tls=tls,
            sasl=sasl,
        )
