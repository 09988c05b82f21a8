"""From a client's settings to its credentials. The settings have librdkafka's names, as `java_settings` gives them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from penstock.client.java_settings import TOKEN
from penstock.core.config.types import ConfigError
from penstock.core.listeners import has_sasl
from penstock.security.sasl.exchange import (
    GSSAPI,
    MECHANISMS,
    OAUTHBEARER,
    PLAIN,
    Credentials,
    LoginError,
    NothingToLogInWithError,
)
from penstock.security.sasl.plain import PlainCredentials
from penstock.security.sasl.scram import SCRAM_HASHES
from penstock.security.sasl.scram_client import ScramCredentials

_DEFAULT_MECHANISM = GSSAPI  # Kafka's clients and librdkafka have it so
_DEFAULT_SERVICE = "kafka"
# Statuses that say that the client, or its URL, is wrong. Any other one says that the issuer, or a proxy before it, is
# in trouble, or has too much to do (429).
_REFUSALS = frozenset({400, 401, 403, 404, 405})


class CredentialsError(ValueError):
    """The settings name no usable login. The text has no secret in it."""


def make_credentials(settings: Mapping[str, str]) -> Credentials | None:
    """None where the security protocol has no SASL. Raises CredentialsError."""
    mechanism = read_mechanism(settings)
    if mechanism is None:
        return None
    if mechanism == PLAIN:
        return PlainCredentials(*_user(settings, mechanism))
    if mechanism in SCRAM_HASHES:
        is_token = settings.get(TOKEN) == "true"
        return ScramCredentials(SCRAM_HASHES[mechanism], *_user(settings, mechanism), is_token=is_token)
    if mechanism == OAUTHBEARER:
        from penstock.security.sasl.oauthbearer import OAuthBearerCredentials

        return OAuthBearerCredentials(_token_source(settings))
    return _kerberos(settings)


def read_mechanism(settings: Mapping[str, str]) -> str | None:
    """None where the security protocol has no SASL. Raises CredentialsError for one that no client of Kafka knows."""
    if not has_sasl(settings.get("security.protocol", "plaintext").strip().upper()):
        return None
    given = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or _DEFAULT_MECHANISM
    mechanism = given.strip().upper()
    if mechanism not in MECHANISMS:
        raise CredentialsError(f"sasl.mechanism {mechanism} is none of {', '.join(MECHANISMS)}")
    return mechanism


def _user(settings: Mapping[str, str], mechanism: str) -> tuple[str, str]:
    user, password = settings.get("sasl.username"), settings.get("sasl.password")
    if not user or password is None:
        raise CredentialsError(
            f"{mechanism} needs a user and a password: sasl.jaas.config, or sasl.username and .password"
        )
    return user, password


def _kerberos(settings: Mapping[str, str]) -> Credentials:
    from penstock.security.sasl.gssapi import GssapiCredentials

    try:
        return GssapiCredentials(
            settings.get("sasl.kerberos.service.name", _DEFAULT_SERVICE),
            settings.get("sasl.kerberos.principal"),
            settings.get("sasl.kerberos.keytab"),
        )
    except ConfigError as error:
        raise CredentialsError(error.message) from None


def _token_source(settings: Mapping[str, str]) -> Callable[[], str]:
    """The token of a file, or one that the issuer gives for the client's id and secret (RFC 6749, section 4.4)."""
    url = settings.get("sasl.oauthbearer.token.endpoint.url", "")
    parts = urlsplit(url)
    if parts.scheme == "file":
        from urllib.request import url2pathname  # 2 MB, with the HTTP client that comes with it

        return lambda: _read_token(Path(url2pathname(parts.path)))
    client_id = settings.get("sasl.oauthbearer.client.id")
    secret = settings.get("sasl.oauthbearer.client.secret")
    if parts.scheme not in ("http", "https") or not client_id or secret is None:
        raise CredentialsError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, and clientId and clientSecret in sasl.jaas.config"
        )
    scope = settings.get("sasl.oauthbearer.scope")
    return lambda: _ask_token(url, client_id, secret, scope)


def _read_token(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise LoginError(f"the token of {path} cannot be read: {error.strerror}") from None


def _ask_token(url: str, client_id: str, secret: str, scope: str | None) -> str:
    from penstock.security.sasl.asking_issuers import StatusError, read_url

    fields = {"grant_type": "client_credentials"} | ({} if scope is None else {"scope": scope})
    basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {basic}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    try:
        document = json.loads(read_url(url, urlencode(fields).encode(), headers))
        token = document["access_token"]
    except StatusError as error:
        refusal = LoginError if error.status in _REFUSALS else NothingToLogInWithError
        raise refusal(f"the issuer gave no token (status {error.status})") from None
    except OSError as error:
        raise NothingToLogInWithError(f"the issuer gave no token ({type(error).__name__})") from None
    except (ValueError, KeyError, TypeError) as error:
        raise LoginError(f"the issuer gave no token ({type(error).__name__})") from None
    if not isinstance(token, str):
        raise LoginError("the issuer's token is no text")
    return token
