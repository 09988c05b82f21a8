"""Where registries are and how to log in there: Confluent's property names as values.

    schema.registry.url               http://one:8081,https://two:8081
    basic.auth.credentials.source     USER_INFO, URL or SASL_INHERIT
    basic.auth.user.info              user:password
    bearer.auth.token                 a token
    schema.registry.ssl.*             Kafka's `ssl.*` keys, or librdkafka's
    http.read.timeout.ms              how long one question may take

The names about logins are also taken with `schema.registry.` in front.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, unquote, urlsplit

from penstock.client.java_settings import NoCredentialsError, parse_jaas
from penstock.client.security import kafka_properties
from penstock.core.config.types import ConfigError
from penstock.core.words.failure_text import PORTS_END

URL = "schema.registry.url"
_PREFIX = "schema.registry."
_TLS_PREFIX = "schema.registry.ssl."
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Long enough for a registry that has to ask its leader, short enough for a person who waits.
_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class RegistryUrl:
    scheme: str
    host: str
    port: int
    path: str = ""  # without a slash at its end

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    urls: tuple[RegistryUrl, ...]
    # The header of every question.
    authorization: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    timeout_s: float = _TIMEOUT_S

    @classmethod
    def of_url(cls, urls: str) -> Self:
        """Comma-separated addresses, without a login but what they name. Raises ConfigError."""
        return cls.of_properties({URL: urls})

    @classmethod
    def of_properties(cls, properties: Mapping[str, str]) -> Self:
        """Reads the files that the properties name. Raises ConfigError, without a secret in its text."""
        properties = {name: value.strip() for name, value in properties.items()}
        parts = [_split(each.strip()) for each in properties.get(URL, "").split(",") if each.strip()]
        if not parts:
            raise ConfigError(f"{URL} names no registry", key=URL)
        urls = tuple(_url(each) for each in parts)
        return cls(
            urls,
            _authorization(properties, parts),
            _tls(properties) if any(each.scheme == "https" for each in urls) else None,
            _timeout_s(properties),
        )


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        _ = parts.port
    except ValueError:
        # Not quoted: a password may be in it.
        raise ConfigError(f"{URL}: an address is wrong; write http://HOST:PORT, {PORTS_END}", key=URL) from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.query or parts.fragment:
        shown = f"{parts.scheme}://{parts.hostname or ''}"
        raise ConfigError(f"{URL}: {shown} is not the address of a registry; write http://HOST:PORT", key=URL)
    if any(not "!" <= each <= "~" for each in parts.path):
        raise ConfigError(f"{URL}: the path has characters that an address cannot have", key=URL)
    return parts


def _url(parts: SplitResult) -> RegistryUrl:
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    return RegistryUrl(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))


def _of_login(properties: Mapping[str, str], name: str) -> str | None:
    return properties.get(name) or properties.get(_PREFIX + name)


def _authorization(properties: Mapping[str, str], urls: list[SplitResult]) -> str | None:
    token = _of_login(properties, "bearer.auth.token")
    source = _of_login(properties, "bearer.auth.credentials.source")
    if source not in (None, "STATIC_TOKEN"):
        key = "bearer.auth.credentials.source"
        raise ConfigError.of_value(key, source, "Only STATIC_TOKEN is known, with bearer.auth.token")
    user_info = _user_info(properties, urls)
    if token and user_info:
        raise ConfigError("bearer.auth.token and basic.auth.user.info exclude each other", key="bearer.auth.token")
    if token:
        if not token.isascii() or not token.isprintable():
            raise ConfigError("bearer.auth.token has characters that a header cannot have", key="bearer.auth.token")
        return f"Bearer {token}"
    return None if user_info is None else "Basic " + base64.b64encode(user_info.encode()).decode()


def _user_info(properties: Mapping[str, str], urls: list[SplitResult]) -> str | None:
    key = "basic.auth.credentials.source"
    source = _of_login(properties, key)
    given = _of_login(properties, "basic.auth.user.info")
    if source is None:
        source = "USER_INFO" if given else "URL"
    if source == "USER_INFO":
        if not given or ":" not in given:
            raise ConfigError("basic.auth.user.info must be user:password", key="basic.auth.user.info")
        return given
    if source == "URL":
        named = [each for each in urls if each.username is not None]
        return f"{unquote(named[0].username or '')}:{unquote(named[0].password or '')}" if named else None
    if source == "SASL_INHERIT":
        return _inherited(properties)
    raise ConfigError.of_value(key, source, "String must be one of: USER_INFO, URL, SASL_INHERIT")


def _inherited(properties: Mapping[str, str]) -> str:
    try:
        jaas = properties.get("sasl.jaas.config")
        login = dict(properties) if jaas is None else parse_jaas(jaas)
    except NoCredentialsError as error:
        raise ConfigError(str(error), key="sasl.jaas.config") from None
    user, password = login.get("sasl.username"), login.get("sasl.password")
    if user is None or password is None:
        raise ConfigError("SASL_INHERIT needs a user and a password in sasl.jaas.config", key="sasl.jaas.config")
    return f"{user}:{password}"


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    from penstock.security.tls.contexts import load_client  # a plain client does without
    from penstock.security.tls.settings import TlsSettings

    own = {
        "ssl." + name.removeprefix(_TLS_PREFIX): value
        for name, value in properties.items()
        if name.startswith(_TLS_PREFIX)
    }
    return load_client(TlsSettings.of_properties(kafka_properties(own)))


def _timeout_s(properties: Mapping[str, str]) -> float:
    key = "http.read.timeout.ms"
    text = _of_login(properties, key)
    if text is None:
        return _TIMEOUT_S
    if not text.isdecimal() or not 0 < int(text) <= 3_600_000:
        raise ConfigError.of_value(key, text, "Value must be between 1 and 3600000")
    return int(text) / 1000
