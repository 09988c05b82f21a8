"""What is known to be wrong before Spark is there: statements, the master, directories, and then topics and rights."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.commands.sql.follow import parse_start, parse_watermarks
from penstock.cli.commands.sql.statements import explained
from penstock.cli.errors import UsageError

if TYPE_CHECKING:
    from penstock.pipelines.sql.sql_session import Known, Wishes


def read_statements(script: str, *, is_explained: bool) -> list[str]:
    """The statements of a script, each of which may be one. Raises CliError."""
    from penstock.pipelines.sql.preflight.script import check_words
    from penstock.pipelines.sql.statements import split_statements

    with _told():
        statements = split_statements(script)
        if not statements:
            raise UsageError("there is no statement", 'Write one: penstock sql "SHOW TABLES"')
        if is_explained:
            statements = [f"EXPLAIN {each}" for each in statements]
        for statement in statements:
            check_words(statement)
    return statements


def check_following(statement: str, start: str | None, watermarks: Sequence[str] | None) -> None:
    """Of a question that is to be followed."""
    from penstock.pipelines.sql.followed_query import refuse_unfollowed
    from penstock.pipelines.sql.statements import parse_statement

    parse_start(start, time.time_ns() // 1_000_000)
    parse_watermarks(watermarks)
    with _told():
        refuse_unfollowed(parse_statement(statement))


def check_places(wishes: Wishes, checkpoint: Path | None, file: Path | None) -> None:
    """Where Spark is to run, and where files are to be written."""
    from penstock.pipelines.preflight.master import check_master
    from penstock.pipelines.preflight.places import certain_path, check_directory
    from penstock.pipelines.sql.spark_session import sql_settings

    with _told():
        settings = sql_settings(wishes.spark, is_hive=wishes.is_hive, is_stream=wishes.is_stream)
        check_master(settings.get("spark.master", ""))
        if checkpoint is not None and certain_path(str(checkpoint), settings) is not None:
            check_directory(str(checkpoint), "the checkpoint")
        if file is not None and (not wishes.is_stream or certain_path(str(file.parent), settings) is not None):
            check_directory(str(file.parent), "the directory")


def check_tables(statements: Sequence[str], known: Known, wishes: Wishes) -> None:
    from penstock.pipelines.sql.preflight.script import check_script

    with _told():
        check_script(statements, known, wishes)


@contextmanager
def _told() -> Iterator[None]:
    from penstock.pipelines.errors import PipelineError

    try:
        yield
    except PipelineError as error:
        raise explained(error) from error
