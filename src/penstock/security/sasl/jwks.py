"""The keys of an issuer (JWKS), read from a file or over HTTPS, and kept.

Rules:
- Without keys nobody is believed. A key set that cannot be read again stays in use for a day, so that an issuer that is
  away for an hour locks nobody out; then it is forgotten.
- A token with an unknown key id has the set read again, at most once a minute: keys are rotated, and anybody can make
  up ids.
- What is read is bounded, no redirect is followed, no proxy is asked, and a certificate that cannot be verified is
  refused.
- Reading blocks: it happens in a thread. One thread reads, the others wait for what it got.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from penstock.core.config.types import ConfigError

# A key set has a few keys of some 500 bytes each.
_MAX_BYTES = 512 * 1024
_TIMEOUT_S = 10.0
_FORGOTTEN_AFTER_MS = 24 * 3600 * 1000
_UNKNOWN_KEY_PAUSE_MS = 60_000
# After a failed attempt, whoever asks.
_RETRY_PAUSE_MS = 10_000

Read = Callable[[], bytes]


class KeyNotFoundError(Exception):
    """No key for a token."""


class KeySource:
    def __init__(self, read: Read, refresh_ms: int) -> None:
        self._read = read
        self._refresh_ms = refresh_ms
        self._lock = threading.Lock()
        self._keys: Any = None  # joserfc's KeySet
        self._read_at_ms: int | None = None
        self._tried_at_ms: int | None = None
        self._unknown_at_ms: int | None = None

    def needs_reading(self, key_id: str | None, now_ms: int) -> bool:
        if self._tried_at_ms is not None and now_ms - self._tried_at_ms < _RETRY_PAUSE_MS and self._has_failed():
            return False
        if self._keys is None or self._read_at_ms is None or now_ms - self._read_at_ms >= self._refresh_ms:
            return True
        return self._pick(key_id) is None and self._may_look_for_unknown(now_ms)

    def find(self, key_id: str | None, now_ms: int) -> Any:
        """The key with this id, or the only key where the token names none. Raises KeyNotFoundError."""
        with self._lock:
            if self.needs_reading(key_id, now_ms):
                self._refresh(key_id, now_ms)
            if self._read_at_ms is None or now_ms - self._read_at_ms >= self._refresh_ms + _FORGOTTEN_AFTER_MS:
                raise KeyNotFoundError("the issuer's keys could not be read")
            key = self._pick(key_id)
        if key is None:
            raise KeyNotFoundError("the token's key is not among the issuer's keys")
        return key

    def load(self, now_ms: int) -> None:
        """Reads the keys, at the start. Raises OSError or ValueError."""
        with self._lock:
            self._keys = parse_keys(self._read())
            self._read_at_ms = self._tried_at_ms = now_ms

    def _has_failed(self) -> bool:
        return self._tried_at_ms != self._read_at_ms

    def _may_look_for_unknown(self, now_ms: int) -> bool:
        return self._unknown_at_ms is None or now_ms - self._unknown_at_ms >= _UNKNOWN_KEY_PAUSE_MS

    def _refresh(self, key_id: str | None, now_ms: int) -> None:
        if self._keys is not None and self._pick(key_id) is None:
            self._unknown_at_ms = now_ms
        self._tried_at_ms = now_ms
        try:
            self._keys = parse_keys(self._read())
        except (OSError, ValueError):
            return
        self._read_at_ms = now_ms

    def _pick(self, key_id: str | None) -> Any:
        keys = [] if self._keys is None else self._keys.keys
        if key_id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.kid == key_id), None)


def parse_keys(data: bytes) -> Any:
    """Raises ValueError. Keys with a shared secret are left out: nobody publishes one on purpose."""
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry, KeySet

    try:
        document = json.loads(data)
        found = [each for each in document["keys"] if each.get("kty") != "oct" and each.get("use", "sig") == "sig"]
        keys = KeySet([JWKRegistry.import_key(each) for each in found])
    except (JoseError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"no set of keys can be read from it ({type(error).__name__})") from None
    if not keys.keys:
        raise ValueError("the set has no key for signatures")
    return keys


# ------------------------------------------------------------------------------------------------- where keys are


def open_key_source(
    url: str | None, allowed_urls: tuple[str, ...], allowed_files: tuple[str, ...], refresh_ms: int
) -> KeySource:
    """Raises ConfigError where the address is missing or not allowed."""
    key = "sasl.oauthbearer.jwks.endpoint.url"
    if not url:
        raise ConfigError(f"OAUTHBEARER needs {key}: without keys no token can be believed", key=key)
    parts = urlsplit(url)
    if parts.scheme == "file":
        if not is_allowed_file(parts.path, allowed_files):
            allowed = "penstock.sasl.oauthbearer.allowed.files"
            raise ConfigError.of_value(key, url, f"a file has to be named in {allowed}, or its directory")
        return KeySource(lambda: _read_file(parts.path), refresh_ms)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError.of_value(key, url, "Expected a URL with https, http or file")
    if url not in allowed_urls:
        allowed = "penstock.sasl.oauthbearer.allowed.urls"
        raise ConfigError.of_value(key, url, f"the URL has to be named in {allowed}")
    check_host(key, url, parts.hostname)
    return KeySource(lambda: read_url(url), refresh_ms)


def is_allowed_file(path: str, allowed: tuple[str, ...]) -> bool:
    wanted = Path(url2pathname(path)).resolve()
    return any(wanted == each or each in wanted.parents for each in (Path(name).resolve() for name in allowed))


def check_host(key: str, url: str, host: str) -> None:
    """A link-local address is that of a cloud's metadata service, which gives away the machine's own credentials."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        raise ConfigError.of_value(key, url, "a link-local address is not asked for keys")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


def _read_file(path: str) -> bytes:
    with Path(url2pathname(path)).open("rb") as file:
        return _bounded(file.read(_MAX_BYTES + 1))


def read_url(url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    """Raises OSError; urllib's errors are such. The certificate of the other side is verified by Python's default."""
    opener = urllib.request.build_opener(_NoRedirects(), urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, body, headers or {"Accept": "application/json"})  # noqa: S310  # checked
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as response:
            return _bounded(response.read(_MAX_BYTES + 1))
    except http.client.HTTPException as error:
        raise OSError(f"the answer is no HTTP ({type(error).__name__})") from None


def _bounded(data: bytes) -> bytes:
    if len(data) > _MAX_BYTES:
        raise ValueError(f"more than {_MAX_BYTES} bytes")
    return data
