"""Sinks and steps that do nothing: what plans and pictures are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.pipelines import Batch, Settings


@dataclass(frozen=True)
class Nowhere:
    name: str

    def describe(self) -> str:
        return f"nowhere {self.name}"

    def prepare(self, spark: Any, settings: Settings) -> None:
        pass

    def write(self, rows: Any, batch: Batch) -> None:
        pass


def parse(rows: Any) -> Any:
    return rows


def count_them(rows: Any) -> Any:
    return rows
