"""`--follow`: the rows of each batch as they come, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.commands.sql.engine import Engine
from penstock.cli.commands.sql.statements import Showing


def follow_statement(
    engine: Engine, statements: Sequence[str], showing: Showing, start: str | None, watermarks: Sequence[str] | None
) -> None:
    raise NotImplementedError
