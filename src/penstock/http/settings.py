"""Settings of an HTTP service: the keys of every service, and the checks of their values.

A service adds its own keys to `HTTP_KEYS` and reads all of them with `Settings.parse`. The names are Confluent's where
Confluent has one. Unlike a broker, a service refuses an unknown key: a misspelt `authentication.method` would leave it
open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from penstock.core.config.keys.tls import TLS_KEYS
from penstock.core.config.types import ConfigError, ConfigKey, ConfigKind, ConfigValue, Importance, OneOf, by_name

_LOW, _HIGH = Importance.LOW, Importance.HIGH

PROCESS_KEYS: Final = (
    ConfigKey(
        "listeners",
        ConfigKind.STRING,
        "",
        "Where the service listens: `http://HOST:PORT` or `https://HOST:PORT`. Empty: on 127.0.0.1 and the service's "
        "usual port.",
        importance=_HIGH,
    ),
    ConfigKey(
        "penstock.log.format",
        ConfigKind.STRING,
        "text",
        "How log lines look: words for people, or one JSON object per line.",
        rule=OneOf(("text", "json")),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.log.level",
        ConfigKind.STRING,
        "info",
        "From which level lines are logged.",
        rule=OneOf(("debug", "info", "warning", "error")),
        importance=_LOW,
    ),
)

AUDIT_KEYS: Final = (
    ConfigKey(
        "penstock.audit.kinds",
        ConfigKind.LIST,
        ("denial", "change"),
        "What the logger `penstock.audit` tells of: logins, rights that were missing, changes. Every request of a "
        "caller with credentials is a login. The REST proxy makes no changes itself: brokers tell of those.",
        rule=OneOf(("login", "denial", "change")),
    ),
)

LOGIN_KEYS: Final = (
    ConfigKey(
        "authentication.method",
        ConfigKind.LIST,
        (),
        "How callers log in: BASIC (a name and a password), BEARER (a token), or both. Empty: they do not, unless "
        "`ssl.client.auth=required` asks for certificates.",
        rule=OneOf(("BASIC", "BEARER", "NONE")),
        importance=_HIGH,
    ),
    ConfigKey(
        "penstock.http.users",
        ConfigKind.PASSWORD,
        "",
        "Who may log in by a password, as NAME:PASSWORD,NAME:PASSWORD.",
    ),
    ConfigKey(
        "penstock.http.tokens",
        ConfigKind.PASSWORD,
        "",
        "Who may log in by a token, as NAME:TOKEN,NAME:TOKEN.",
    ),
    ConfigKey(
        "penstock.http.broker.logins",
        ConfigKind.BOOLEAN,
        False,
        "Whether callers log in by what the brokers know of them: a password by SCRAM or PLAIN, a token by "
        "OAUTHBEARER. The listener of the brokers needs SASL.",
    ),
    ConfigKey(
        "penstock.http.insecure",
        ConfigKind.BOOLEAN,
        False,
        "Whether the service may be open to everybody on an address other than loopback.",
    ),
)

HTTP_KEYS: Final[tuple[ConfigKey, ...]] = (*PROCESS_KEYS, *LOGIN_KEYS, *AUDIT_KEYS, *TLS_KEYS)


class Settings:
    """Checked values by the names of their keys. `text_of` has the raw values under a prefix, for other readers."""

    def __init__(self, values: Mapping[str, ConfigValue], given: Mapping[str, str]) -> None:
        self._values = values
        self._given = given

    @classmethod
    def parse(cls, keys: Iterable[ConfigKey], given: Mapping[str, str], prefixes: Iterable[str] = ()) -> Self:
        """Names under `prefixes` belong to other readers, such as a client's settings, and are not checked here. Raises
        ConfigError for a value that does not fit and for an unknown key.
        """
        table = by_name(keys)
        passed_on = tuple(prefixes)
        unknown = [name for name in given if name not in table and not name.startswith(passed_on)]
        if unknown:
            raise ConfigError(_describe_unknown(unknown[0], [*table, *passed_on]), key=unknown[0])
        values = {name: key.parse(given[name]) if name in given else key.default for name, key in table.items()}
        return cls(values, dict(given))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def is_given(self, name: str) -> bool:
        return name in self._given

    def under(self, prefix: str) -> dict[str, str]:
        """The values under a prefix, without the prefix."""
        return {name.removeprefix(prefix): text for name, text in self._given.items() if name.startswith(prefix)}

    def tls_properties(self) -> dict[str, str]:
        """The `ssl.*` settings of the listener, unchanged."""
        names = {key.name for key in TLS_KEYS}
        return {name: text for name, text in self._given.items() if name in names}


def _describe_unknown(name: str, known: list[str]) -> str:
    import difflib  # only a mistaken key needs it

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f": did you mean {close[0]!r}?" if close else ""
    return f"unknown configuration key {name!r}{hint}"
