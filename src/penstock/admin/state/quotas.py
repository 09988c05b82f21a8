"""Whom a quota is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self


class QuotaEntity(NamedTuple):
    """Names by type (`user`, `client-id`, `ip`), in the order of the types. None is the default: what holds for all
    without a quota of their own.
    """

    names: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, names: Mapping[str, str | None]) -> Self:
        return cls(tuple(sorted(names.items())))
