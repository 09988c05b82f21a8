"""The TLS settings of one listener, or of a client: Kafka's `ssl.*` keys as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from penstock.core.config.keys.tls import TLS_KEYS
from penstock.core.config.types import ConfigValue, by_name

_KEYS = by_name(TLS_KEYS)
CRL_LOCATION = "penstock.ssl.crl.location"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateStore:
    """A file, or PEM in the settings themselves. `repr` hides the secrets from logs."""

    kind: str  # keystore or truststore
    location: str | None = None
    type: str = "JKS"
    password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    @property
    def is_given(self) -> bool:
        return bool(self.location or self.key or self.certificates)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    keystore: CertificateStore
    truststore: CertificateStore
    crl_location: str | None
    client_auth: str
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    principal_rules: str
    checks_host_name: bool
    allows_dn_changes: bool
    allows_san_changes: bool

    @classmethod
    def of(cls, value: Callable[[str], ConfigValue]) -> Self:
        """`value` gives the value in effect of one of Kafka's keys, checked."""
        read: Callable[[str], Any] = value
        return cls(
            keystore=CertificateStore(
                kind="keystore",
                location=read("ssl.keystore.location") or None,
                type=read("ssl.keystore.type").upper(),
                password=read("ssl.keystore.password"),
                key=read("ssl.keystore.key"),
                certificates=read("ssl.keystore.certificate.chain"),
                key_password=read("ssl.key.password"),
            ),
            truststore=CertificateStore(
                kind="truststore",
                location=read("ssl.truststore.location") or None,
                type=read("ssl.truststore.type").upper(),
                password=read("ssl.truststore.password"),
                certificates=read("ssl.truststore.certificates"),
            ),
            crl_location=read(CRL_LOCATION) or None,
            client_auth=read("ssl.client.auth"),
            protocols=read("ssl.enabled.protocols"),
            cipher_suites=read("ssl.cipher.suites"),
            principal_rules=read("ssl.principal.mapping.rules"),
            checks_host_name=bool(read("ssl.endpoint.identification.algorithm")),
            allows_dn_changes=read("ssl.allow.dn.changes"),
            allows_san_changes=read("ssl.allow.san.changes"),
        )

    @classmethod
    def of_properties(cls, properties: Mapping[str, str]) -> Self:
        """From a client's property file; keys that are missing have Kafka's defaults. Raises ConfigError."""
        return cls.of(lambda name: _KEYS[name].parse(properties[name]) if name in properties else _KEYS[name].default)

    @property
    def files(self) -> tuple[str, ...]:
        """The files on disk, which may change."""
        return tuple(filter(None, (self.keystore.location, self.truststore.location, self.crl_location)))
