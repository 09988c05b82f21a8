"""Sinks and steps that do nothing: what plans and pictures are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.pipelines import Batch, Settings


@dataclass(frozen=True)
class Nowhere:
    name: str

    session_settings: ClassVar[Mapping[str, str]] = {}

    def describe(self, settings: Settings) -> str:
        return f"nowhere {self.name}"

    def open(self, spark: Any, settings: Settings) -> OpenNowhere:
        return OpenNowhere()


class OpenNowhere:
    def write(self, rows: Any, batch: Batch) -> None:
        pass

    def close(self) -> None:
        pass


def parse(rows: Any) -> Any:
    return rows


def count_them(rows: Any) -> Any:
    return rows
