"""The text of `sasl.jaas.config`: one login module of Kafka's own, with its options.

A foreign module is refused: Java would load a class of any name, and attackers used that (CVE-2023-25194,
CVE-2025-27818, CVE-2025-27819). Penstock loads no module, and refuses an unknown name so that it does not seem to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from penstock.core.config.types import ConfigError, ConfigValue

KEY = "sasl.jaas.config"
_KAFKA = "org.apache.kafka.common.security."
# By mechanism; both SCRAM mechanisms have one module.
PLAIN_MODULE = f"{_KAFKA}plain.PlainLoginModule"
SCRAM_MODULE = f"{_KAFKA}scram.ScramLoginModule"
OAUTHBEARER_MODULE = f"{_KAFKA}oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
MODULES = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE, KERBEROS_MODULE)
MODULE_OF_MECHANISM: Mapping[str, str] = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE,
    "GSSAPI": KERBEROS_MODULE,
}
_FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'
    | (?P<sign>[=;]) | (?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


class LoginModule(NamedTuple):
    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, {', '.join(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Raises ConfigError. Its message shows only names, because the text has passwords in it."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (";", True):
        raise _error('Expected `MODULE required name="value" ...;`')
    (name, _), (flag, _), *rest = tokens[:-1]
    if name not in MODULES:
        raise _error(f"Login module {_shown(name)} is not one of Kafka's own: {', '.join(MODULES)}")
    if flag.lower() not in _FLAGS:
        raise _error(f"Expected one of {', '.join(_FLAGS)} after the login module")
    options: dict[str, str] = {}
    while rest:
        if len(rest) < 3 or rest[0][1] or rest[1] != ("=", True) or rest[2][1]:
            raise _error('Expected options as name="value", one login module, and a semicolon at the end')
        options[rest[0][0]] = rest[2][0]
        rest = rest[3:]
    return LoginModule(name, MappingProxyType(options))


def _tokens(text: str) -> list[tuple[str, bool]]:
    """(text, whether it is a sign)"""
    tokens: list[tuple[str, bool]] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _error("A quotation mark is not closed")
        position = found.end()
        if found["sign"] is not None:
            tokens.append((found["sign"], True))
        for quoted in (found["double"], found["single"]):
            if quoted is not None:
                unescaped = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), quoted)
                tokens.append((unescaped, False))
        if found["word"] is not None:
            tokens.append((found["word"], False))
    return tokens


def _shown(name: str) -> str:
    """Shows the name of a class and hides anything else, which may be a password in the wrong place."""
    return name if re.fullmatch(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)+", name) and len(name) <= 200 else "?"


def _error(reason: str) -> ConfigError:
    return ConfigError(f"Invalid value for configuration {KEY}: {reason}", key=KEY)


class JaasText:
    """The rule of the key."""

    def check(self, key: str, value: ConfigValue) -> None:
        if value is not None:
            assert isinstance(value, str)
            parse_jaas(value)

    def __str__(self) -> str:
        return "one login module of Kafka's own"
