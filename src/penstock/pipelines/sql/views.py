"""`CREATE VIEW`: questions kept by name in a file of SQL that people can read and write as well."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.pipelines.sql.statements import CreateView, DropView

DEFAULT_FILE = Path("~/.config/penstock/views.sql")


@dataclass(slots=True)
class Views:
    """The views of one file, in the order in which they were made. A view may use topics and other views."""

    file: Path
    queries: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)  # what the file has that is no view, in words; skipped

    @classmethod
    def load(cls, file: Path = DEFAULT_FILE) -> Views:
        raise NotImplementedError

    def create(self, statement: CreateView) -> None:
        raise NotImplementedError

    def drop(self, statement: DropView) -> None:
        raise NotImplementedError
