"""The keys of an issuer (JWKS), read from a file or over HTTPS, and kept.

Rules:
- Without keys no token is accepted. A key set that cannot be read again stays in use for a day, so that an issuer that
  is away for an hour locks no user out; then it is forgotten.
- A token with an unknown key id has the set read again, at most once a minute whatever the id: issuers rotate keys,
  and an attacker can invent ids. So no id has to be remembered.
- The size and the time of a read are bounded (see `asking_issuers`).
- Reading blocks: it happens in a thread. One thread reads, and others wait for its result. A login with a known key
  waits for nothing: `needs_reading` and `find` are for the event loop, and take no lock.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from penstock.core.config.types import ConfigError
from penstock.security.sasl.asking_issuers import MAX_BYTES, bounded, is_unasked, read_url

_FORGOTTEN_AFTER_MS = 24 * 3600 * 1000
_UNKNOWN_KEY_PAUSE_MS = 60_000
# After the end of a failed attempt, for all logins together.
_RETRY_PAUSE_MS = 10_000

# Issuers have two or three. Reading one takes up to a millisecond.
_MOST_KEYS = 100

Read = Callable[[], bytes]


class KeyNotFoundError(Exception):
    """No key for a token."""


class _Held(NamedTuple):
    keys: Any  # joserfc's KeySet; None before the first that could be read
    read_at_ms: int

    def pick(self, key_id: str | None) -> Any:
        keys = [] if self.keys is None else self.keys.keys
        if key_id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.kid == key_id), None)


_NOTHING = _Held(None, 0)


class KeySource:
    def __init__(self, read: Read, refresh_ms: int, clock_ms: Callable[[], int]) -> None:
        """`clock_ms` gives the end of an attempt; `now_ms` elsewhere is when a login began."""
        self._read = read
        self._clock_ms = clock_ms
        self._refresh_ms = refresh_ms
        self._lock = threading.Lock()  # of the thread that reads
        self._is_reading = False
        self._held = _NOTHING  # replaced as a whole, because other threads read it meanwhile
        self._failed_at_ms: int | None = None  # None: the last attempt got the keys
        self._failure = "never tried"
        self._unknown_at_ms: int | None = None

    def needs_reading(self, key_id: str | None, now_ms: int) -> bool:
        """Whether `read` has to come before `find`."""
        held = self._held
        if self._is_reading:
            return held.pick(key_id) is None  # the set that is being read may have the key
        if self._failed_at_ms is not None and now_ms - self._failed_at_ms < _RETRY_PAUSE_MS:
            return False
        if held.keys is None or now_ms - held.read_at_ms >= self._refresh_ms:
            return True
        return held.pick(key_id) is None and self._may_look_for_unknown(now_ms)

    def read(self, key_id: str | None, now_ms: int) -> None:
        """Reads the keys, unless another thread just did. A failure keeps the keys that are there."""
        with self._lock:
            if not self.needs_reading(key_id, now_ms):
                return
            if self._held.keys is not None and self._held.pick(key_id) is None:
                self._unknown_at_ms = now_ms
            self._is_reading = True
            try:
                self._held = _Held(parse_keys(self._read()), now_ms)
                self._failed_at_ms = None
            except (OSError, ValueError) as error:
                self._failed_at_ms, self._failure = self._clock_ms(), type(error).__name__
            finally:
                self._is_reading = False

    def find(self, key_id: str | None, now_ms: int) -> Any:
        """The key with this id, or the only key where the token names none. Raises KeyNotFoundError."""
        held = self._held
        if held.keys is None or now_ms - held.read_at_ms >= self._refresh_ms + _FORGOTTEN_AFTER_MS:
            raise KeyNotFoundError(f"the issuer's keys could not be read ({self._failure})")
        key = held.pick(key_id)
        if key is None:
            raise KeyNotFoundError("the token's key is not among the issuer's keys")
        return key

    def load(self, now_ms: int) -> None:
        """Reads the keys, at the start. Raises OSError or ValueError."""
        with self._lock:
            self._held = _Held(parse_keys(self._read()), now_ms)

    def _may_look_for_unknown(self, now_ms: int) -> bool:
        return self._unknown_at_ms is None or now_ms - self._unknown_at_ms >= _UNKNOWN_KEY_PAUSE_MS


def parse_keys(data: bytes) -> Any:
    """Raises ValueError. Keys with a shared secret are left out: no issuer publishes one on purpose. Keys of unknown
    kinds are left out as well, because an issuer may have some for other services.
    """
    from joserfc.jwk import KeySet

    try:
        found = [each for each in json.loads(data)["keys"] if isinstance(each, dict)]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"no set of keys can be read from it ({type(error).__name__})") from None
    keys = [key for each in found[:_MOST_KEYS] if (key := _import_key(each)) is not None]
    if not keys:
        raise ValueError("the set has no key for signatures")
    return KeySet(keys)


def _import_key(document: dict[str, Any]) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    if document.get("kty") == "oct" or document.get("use", "sig") != "sig":
        return None
    try:
        return JWKRegistry.import_key(document)
    except (JoseError, UnsupportedAlgorithm, KeyError, TypeError, AttributeError, ValueError):
        return None


# ------------------------------------------------------------------------------------------------- where keys are


def open_key_source(
    url: str | None,
    allowed_urls: tuple[str, ...],
    allowed_files: tuple[str, ...],
    refresh_ms: int,
    clock_ms: Callable[[], int],
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
        return KeySource(lambda: _read_file(parts.path), refresh_ms, clock_ms)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError.of_value(key, url, "Expected a URL with https, http or file")
    if url not in allowed_urls:
        allowed = "penstock.sasl.oauthbearer.allowed.urls"
        raise ConfigError.of_value(key, url, f"the URL has to be named in {allowed}")
    if is_unasked(parts.hostname):
        raise ConfigError.of_value(key, url, "a link-local address is not asked for keys")
    return KeySource(lambda: read_url(url, refuses_link_local=True), refresh_ms, clock_ms)


def is_allowed_file(path: str, allowed: tuple[str, ...]) -> bool:
    wanted = Path(url2pathname(path)).resolve()
    return any(wanted == each or each in wanted.parents for each in (Path(name).resolve() for name in allowed))


def _read_file(path: str) -> bytes:
    with Path(url2pathname(path)).open("rb") as file:
        return bounded(file.read(MAX_BYTES + 1))
