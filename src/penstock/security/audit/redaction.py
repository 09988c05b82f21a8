"""Redacts settings: shows the value of a known and harmless setting, and a mark for any other.

Three fences, because one was not enough for others (CVE-2019-12399, CVE-2026-33558): a key that our table calls a
password, a key that is unknown or whose name sounds like a secret, and a harmless key whose value has a secret inside,
such as a login module's options or the password of an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.core.config.table import BROKER_KEYS, GROUP_KEYS_BY_NAME, TOPIC_KEYS_BY_NAME
from penstock.core.config.types import ConfigKey
from penstock.security.audit.events import Detail

HIDDEN = "[hidden]"

# Parts of names of settings, of details and of fields on the wire that hold secrets.
SECRET_WORDS: tuple[str, ...] = (
    "password",
    "passwd",
    "secret",
    "jaas",
    "credential",
    "private",
    "keystore.key",
    "token",
    "hmac",
    "salt",
    "stored_key",
    "server_key",
    "digest",
    "bearer",
    "scram-",
)
# `password="x"`, `sasl.password: x`, `https://user:x@host`, a PEM block, a JWT, the fields of a SCRAM credential.
# Clients send values of megabytes, denied ones too, and the loop waits for the search. So each repetition has a bound:
# without it a value of `passpasspass...` would take minutes.
_SECRET_VALUE = re.compile(
    r"(?:pass(?:word|wd)?|secret|token|stored_key|server_key|salt|hmac)\w{0,40}[\"']?\s{0,10}[=:]"
    r"|://[^/\s:@]{0,250}:[^/\s@]{1,250}@"
    r"|-----BEGIN"
    r"|\beyJ[\w-]{6}"
    r"|LoginModule\b",
    re.IGNORECASE,
)
# The trail shows 1,000 characters at most, so what comes later gives nothing away.
_LOOKED_AT = 4_000
_LISTENER_KEY = re.compile(r"listener\.name\.[^.]+\.(.*)", re.DOTALL)
_TABLES: tuple[dict[str, ConfigKey], ...] = (BROKER_KEYS, TOPIC_KEYS_BY_NAME, GROUP_KEYS_BY_NAME)


def sounds_secret(name: str) -> bool:
    lowered = name.lower()
    return any(word in lowered for word in SECRET_WORDS)


def has_secret(value: str) -> bool:
    return _SECRET_VALUE.search(value, 0, _LOOKED_AT) is not None


def show_setting(name: str, value: str | None) -> str | None:
    """The value of a setting as any reader of the trail may see it."""
    if value is None:
        return None
    match = _LISTENER_KEY.fullmatch(name)
    plain = match[1] if match else name
    keys = [table[plain] for table in _TABLES if plain in table]
    if not keys or any(key.is_sensitive for key in keys) or sounds_secret(plain) or has_secret(value):
        return HIDDEN
    return value


def show_detail(name: str, value: Detail) -> Detail:
    """The same for a detail that a part of the broker put into an event: we chose its name, so the name says enough."""
    if isinstance(value, str) and (sounds_secret(name) or has_secret(value)):
        return HIDDEN
    return value


def describe_settings(settings: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    return {name: show_setting(name, value) for name, value in settings}
