"""Users with passwords, as brokers tell them: never a password, and nothing that it could be guessed from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class UserState(NamedTuple):
    name: str
    credentials: Mapping[str, int]  # the iterations of each mechanism, by its name
