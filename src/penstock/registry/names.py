"""Names of subjects: a context and a name in it, `:.context:name`, or the name alone in the default context."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from penstock.registry.errors import invalid_subject

DEFAULT_CONTEXT = "."
# Config and mode of this context count in all contexts.
GLOBAL_CONTEXT = ".__GLOBAL"
GLOBAL_SCOPE = f":{GLOBAL_CONTEXT}:"
# In front of a prefix: in all contexts.
EVERY_CONTEXT = ":*:"
# Confluent's registry keeps rights and empty names under these.
_RESERVED_NAMES = frozenset({"__GLOBAL", "__EMPTY"})
# A name is part of every key, and a key of Kafka's default topic has to fit in a batch with others.
_MOST_CHARACTERS = 4_096


class SubjectName(NamedTuple):
    context: str
    name: str

    @property
    def full(self) -> str:
        return join(self.context, self.name)


def split(subject: str) -> SubjectName:
    """`:.c:s` is `s` in `.c`; `:.c` is the context itself, as `:.c:` is."""
    if not subject.startswith(":."):
        return SubjectName(DEFAULT_CONTEXT, subject)
    context, _, name = subject[1:].partition(":")
    return SubjectName(context, name)


def join(context: str, name: str) -> str:
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def canonical(subject: str) -> str:
    """The one spelling of a subject, or of a scope: the default context has none, even if the caller wrote it."""
    return join(*split(subject))


def context_of(subject: str) -> str:
    return split(subject).context


def scope_of(context: str) -> str:
    """The scope of config and mode that counts in a whole context."""
    return join(context, "")


def beside(subject: str, other: str) -> str:
    """The subject that `other` means in a reference of `subject`: a name without a context is in the context of
    `subject`.
    """
    named = split(other)
    if named.context != DEFAULT_CONTEXT:
        return named.full
    return join(context_of(subject), named.name)


def check_subject(subject: str) -> str:
    """The canonical spelling of a subject that may have versions (42208)."""
    context, name = split(subject)
    if not name or name in _RESERVED_NAMES or context == GLOBAL_CONTEXT or _is_unusable(subject):
        raise invalid_subject(subject)
    return join(context, name)


def check_scope(scope: str) -> str:
    """The canonical spelling of a scope of config and mode: a subject, a context, or "" (42208)."""
    context, name = split(scope)
    if name in _RESERVED_NAMES or (context == GLOBAL_CONTEXT and name) or _is_unusable(scope):
        raise invalid_subject(scope)
    return join(context, name)


def check_context(context: str) -> str:
    """The name of a context, which begins with a dot; colons around it are left away (42208)."""
    name = context.strip(":")
    if not name.startswith(DEFAULT_CONTEXT) or ":" in name or name == GLOBAL_CONTEXT or _is_unusable(name):
        raise invalid_subject(context)
    return name


def _is_unusable(subject: str) -> bool:
    if len(subject) > _MOST_CHARACTERS or subject.startswith(EVERY_CONTEXT):
        return True
    # Control characters, and halves of surrogate pairs, which no UTF-8 key can have.
    return any(unicodedata.category(character) in ("Cc", "Cs") for character in subject)
