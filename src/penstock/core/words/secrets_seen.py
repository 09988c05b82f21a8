"""Secrets on a command line: every user of the machine sees them by `ps`, and a shell remembers them.

So a setting of a command line may name the place of its value: `${env:NAME}` is a variable of the environment,
`${file:PATH}` the text of a file. Only the command line follows such references: in a file of properties or a request
they stay as they are written, since the author of those may have no right to read this machine's files
(CVE-2024-31141). A doubled dollar in front of a reference makes a text of it: `$${env:NAME}`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping

# A dot behind a word asks for a whole one: `fs.azure.account.key.NAME` is a key, `...account.keyprovider.NAME` a class.
_SECRET = (
    *("password", "passwd", "passphrase", "secret", "jaas", "credential", "user.info", "auth.token", "digest"),
    *("keystore.key", "key.pem.", "private.key.", "master.key.", "encryption.key."),
    *("account.key.", "azure.sas.", "session.token.", "refresh.token."),  # those of object stores
)
# Logins of HTTP listeners, as NAME:PASSWORD.
_LOGINS = ("penstock.http.users", "penstock.http.tokens", "penstock.metrics.users", "penstock.metrics.tokens")
# Names of settings about a secret, such as its place, which hold no secret themselves.
_NO_SECRET = (
    *(".file", ".location", ".path", "passwordpath", ".url", ".endpoint"),
    *(".ms", ".source", ".class", ".type", ".enabled"),
)
# With the dollars in front: two of them are one, and one that is left over makes a text of the reference.
_REFERENCE = re.compile(r"(\$*)(\$\{(env|file):([^}]*)\})")
_LOGIN_IN_URL = re.compile(r"://[^/@\s:]*:[^/@\s]+@")
# A certificate with its chain has some kilobytes.
_MOST_BYTES = 1 << 20


class UnknownReferenceError(Exception):
    """The message names the missing variable or file."""


def follow_references(value: str, environment: Mapping[str, str] = os.environ) -> str:
    """Raises UnknownReferenceError."""

    def follow(kind: str, name: str) -> str:
        if kind == "file":
            return _read(name)
        if name not in environment:
            raise UnknownReferenceError(f"the environment has no {name}")
        return environment[name]

    return _replace(value, follow)


def _replace(value: str, follow: Callable[[str, str], str]) -> str:
    def replace(found: re.Match[str]) -> str:
        dollars, reference, kind, name = found.groups()
        count, is_text = divmod(len(dollars), 2)
        return "$" * count + (reference if is_text else follow(kind, name))

    return _REFERENCE.sub(replace, value)


def _read(path: str) -> str:
    """Without the end of the last line, which every editor writes."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UnknownReferenceError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnknownReferenceError(f"{path} is no text in UTF-8") from None
    if len(text) > _MOST_BYTES:
        raise UnknownReferenceError(f"{path} has more than {_MOST_BYTES} bytes")
    return text.removesuffix("\n")


def secret_names(settings: Iterable[str]) -> list[str]:
    """Of `KEY=VALUE` texts, the keys that have a secret for a value."""
    pairs = [text.partition("=") for text in settings]
    return [
        key.strip()
        for key, _, value in pairs
        if (is_secret_name(key) and _is_shown(key, value)) or has_login(_replace(value, lambda *_: ""))
    ]


def has_login(url: str) -> bool:
    """Whether the URL has a password: http://USER:PASSWORD@HOST."""
    return _LOGIN_IN_URL.search(url) is not None


def _is_shown(key: str, value: str) -> bool:
    """True where at least one login is in plain text: of several, one may be a reference and another in plain text."""
    references: list[str] = []

    def take_out(_: str, name: str) -> str:
        references.append(name)
        return ""

    rest = _replace(value, take_out)
    if not references:
        return bool(value.strip())
    is_of_logins = key.strip().lower().endswith(_LOGINS)
    return is_of_logins and any(login.partition(":")[2].strip() for login in rest.split(","))


def is_secret_name(key: str) -> bool:
    name = key.strip().lower()
    return any(word in f"{name}." for word in (*_SECRET, *_LOGINS)) and not name.endswith(_NO_SECRET)


def warning_of(settings: Iterable[str], *instead: str) -> str:
    """One line, or nothing. `instead` names places for the secret besides the environment and a file of its own."""
    names = secret_names(settings)
    if not names:
        return ""
    seen = seen_by_all(", ".join(names))
    elsewhere = f"'{names[0]}=${{env:NAME}}' and '{names[0]}=${{file:PATH}}' take it from elsewhere."
    return " ".join((seen, *instead, elsewhere))


def seen_by_all(what: str) -> str:
    return f"Warning: everybody on this machine can see {what} by `ps`."
