"""Settings that hold for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from penstock.pipelines.spark_settings import temporary_settings


@dataclass
class Conf:
    values: dict[str, str]
    changes: list[tuple[str, str | None]] = field(default_factory=list)

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.changes.append((name, value))

    def unset(self, name: str) -> None:
        self.changes.append((name, None))


@dataclass
class Session:
    conf: Conf


def test_only_what_differs_is_set_and_set_back_when_settings_hold_for_a_while() -> None:
    conf = Conf({"same": "false", "other": "true"})
    with temporary_settings(cast("Any", Session(conf)), {"same": "false", "other": "false", "new": "1"}):
        assert conf.changes == [("other", "false"), ("new", "1")]
    assert conf.changes[2:] == [("other", "true"), ("new", None)]
