"""An application with a stream, a table and a global table, for tests that go on from there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.streams import GlobalTable, Stream, Streams, Table, json


@dataclass
class Click:
    user: str
    url: str
    at: datetime


class Clicks:
    def __init__(
        self, name: str = "payments", grace: str | None = "10 minutes", dead_letters: str | None = None
    ) -> None:
        self.app = Streams(name, dead_letters=dead_letters)
        self.clicks: Stream = self.app.stream("clicks", value=json(Click), time="at", grace=grace)
        self.users: Table = self.app.table("users", value=json("country string"))
        self.rates: GlobalTable = self.app.global_table("rates", value=json("rate double"))


def by_hand(row: Any) -> Any:
    return row


def together(first: Any, second: Any) -> Any:
    return second
