"""The rules for topic names. Rules and texts are Kafka's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.core.limits import MAX_TOPIC_NAME_LENGTH
from penstock.protocol.errors import ApiError, ErrorCode

_LEGAL = re.compile(r"[A-Za-z0-9._-]+")


def invalid_reason(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def is_valid_topic_name(name: str) -> bool:
    return invalid_reason(name) is None


def check_topic_name(name: str) -> None:
    """Raises ApiError(INVALID_TOPIC_EXCEPTION) unless the name is allowed."""
    reason = invalid_reason(name)
    if reason is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def check_collision(name: str, colliding_names: Mapping[str, str]) -> None:
    """Metric names write dots as underscores, so two topics that differ in nothing else would look the same."""
    other = colliding_names.get(name.replace(".", "_"))
    if other is not None and other != name:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
