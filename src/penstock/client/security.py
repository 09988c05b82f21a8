"""How a client's connections are secured: a value that every kind of connection takes.

The settings are Kafka's client properties (`security.protocol`, `ssl.*`), or librdkafka's names for the same.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from penstock.client.credentials import CredentialsError, make_credentials
from penstock.client.java_settings import NoCredentialsError, parse_jaas
from penstock.core.config.types import ConfigError
from penstock.core.listeners import SECURITY_PROTOCOLS
from penstock.security.sasl.exchange import Credentials

_PROTOCOL = "security.protocol"
_CHECKS_NAMES = "ssl.endpoint.identification.algorithm"
# librdkafka's name, Kafka's name.
_KAFKA_NAMES = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.crl.location": "penstock.ssl.crl.location",
}
# PEM in a file of its own, where Kafka has it in the settings.
_KAFKA_INLINE = {"ssl.certificate.location": "ssl.keystore.certificate.chain", "ssl.key.location": "ssl.keystore.key"}


# What librdkafka alone understands. A connection of ours would leave it out, and be less secure or fail.
_LIBRDKAFKA_ONLY = (
    "enable.ssl.certificate.verification",
    "ssl.curves.list",
    "ssl.engine.",
    "ssl.providers",
    "ssl.sigalgs.list",
    "sasl.kerberos.kinit.cmd",
    "sasl.oauthbearer.config",
)
_SECURITY_PREFIXES = ("enable.ssl.", "enable.sasl.", "penstock.ssl.", "sasl.", "security.", "ssl.")


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """With `tls` nothing is sent before the broker has shown a certificate that is trusted and names its host. With
    `credentials` the client logs in before it asks for anything.
    """

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None


PLAINTEXT = ClientSecurity()
# A function is asked for each new connection: certificates and authorities may change while a client runs.
SecuritySource: TypeAlias = ClientSecurity | Callable[[], ClientSecurity]


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """Reads the files that the properties name. Raises ConfigError and CredentialsError."""
    protocol = properties.get(_PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError.of_value(_PROTOCOL, protocol, f"String must be one of: {', '.join(SECURITY_PROTOCOLS)}")
    credentials = make_credentials(_with_login(properties))
    if protocol not in ("SSL", "SASL_SSL"):
        return ClientSecurity(credentials=credentials)
    from penstock.security.tls.contexts import load_client  # a plain client does without
    from penstock.security.tls.settings import TlsSettings

    return ClientSecurity(load_client(TlsSettings.of_properties(properties)), credentials)


def _with_login(properties: Mapping[str, str]) -> Mapping[str, str]:
    jaas = properties.get("sasl.jaas.config")
    try:
        return properties if jaas is None else {**properties, **parse_jaas(jaas)}
    except NoCredentialsError as error:
        raise CredentialsError(str(error)) from None


def kafka_properties(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings by Kafka's names, as far as they are about TLS and login. Raises ConfigError when a file
    cannot be read.
    """
    properties = {_KAFKA_NAMES.get(name, name): value for name, value in settings.items()}
    for name, inline in _KAFKA_INLINE.items():
        location = properties.pop(name, None)
        if location is not None:
            properties[inline] = _read(name, location)
    if properties.get(_CHECKS_NAMES) == "none":
        properties[_CHECKS_NAMES] = ""
    return properties


def security_settings(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The part of a client's settings that this module reads, in an order of its own: a key to keep connections by."""
    return tuple(sorted(each for each in settings.items() if each[0].startswith(_SECURITY_PREFIXES)))


def why_not_ours(settings: Mapping[str, str]) -> str:
    """Why a connection of ours cannot do what librdkafka does with `settings`; empty where it can. Reads no file."""
    for name in settings:
        if name.startswith(_LIBRDKAFKA_ONLY):
            return f"{name} is for librdkafka alone"
    try:
        make_credentials(settings)
    except CredentialsError as error:
        return str(error)
    return ""


def _read(name: str, location: str) -> str:
    try:
        return Path(location).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError.of_value(name, location, f"The file cannot be read: {reason}") from error
