"""`penstock sql`: topics as tables. One statement, a script, or a shell."""

from __future__ import annotations

import enum
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.registry import DEFAULT_REGISTRY, LOGIN_ELSEWHERE, REGISTRY_VARIABLE
from penstock.cli.commands.sql.engine import Engine
from penstock.cli.commands.sql.engine_start import Starting
from penstock.cli.commands.sql.preflight import check_following, check_places, check_tables, read_statements
from penstock.cli.commands.sql.row_printer import DEFAULT_LIMIT, Format, open_batch_printer, open_printer
from penstock.cli.commands.sql.statements import Showing, explained, run_all
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cli.options import on_cluster, read_text
from penstock.cli.registry_options import RegistryConfig, RegistryUrl
from penstock.cli.text import parse_pair, parse_settings
from penstock.cli.times import TIME_FORMS, parse_duration_ms
from penstock.core.extras import require

if TYPE_CHECKING:
    from penstock.pipelines.runtime.spark.signals import Course
    from penstock.pipelines.sql.sql_session import Known, Wishes

app = typer.Typer(rich_markup_mode=None)

_PROBE_SECONDS = 0.3
_MOST_PROBED = 10_000


class BadRows(enum.StrEnum):
    FAIL = "fail"
    SKIP = "skip"
    NULL = "null"


class SchemaFormat(enum.StrEnum):
    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What is shown."""

    output: Annotated[Format, typer.Option("--output", "-o", help="How rows are written.")] = Format.TABLE
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="The file for --output parquet.")] = None
    limit: Annotated[int, typer.Option(min=0, help="Rows shown of a table; other outputs have all.")] = DEFAULT_LIMIT
    explain: Annotated[bool, typer.Option("--explain", help="Show what would be read, and do not read it.")] = False
    timing: Annotated[bool, typer.Option("--timing", help="Say how long each statement took; the shell does.")] = False


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How topics become tables."""

    bad_rows: Annotated[BadRows, typer.Option(help="What a record does that its schema does not decode.")] = (
        BadRows.FAIL
    )
    lateness: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="How much later than its neighbours of the same time a record may come, for a question that ends at a"
            " time to see it. none: no limit, and such a question reads to the end of the topic.",
        ),
    ] = "10m"
    subject: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC=SUBJECT", help="Whose schema the topic's values have, if not TOPIC-value."),
    ] = None
    views: Annotated[Path | None, typer.Option(metavar="FILE", help="Where CREATE VIEW keeps views.")] = None
    registry_url: RegistryUrl = None
    registry_config: RegistryConfig = None
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="spark.KEY=VALUE", help="A setting of Spark.")
    ] = None
    hive: Annotated[bool, typer.Option("--hive", help="Hive's tables, too.")] = False


@dataclass(frozen=True, slots=True)
class InsertingOptions:
    """What INSERT INTO does, and what it remembers."""

    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where INSERT INTO and --follow keep how far they have come.")
    ] = None
    schema_format: Annotated[
        SchemaFormat | None,
        typer.Option(help="Of schemas that INSERT INTO registers; avro for topics that hold nothing."),
    ] = None
    create_partitions: Annotated[
        int, typer.Option(min=0, metavar="N", help="INSERT INTO creates a topic that is missing, with N partitions.")
    ] = 0


@dataclass(frozen=True, slots=True)
class FollowingOptions:
    """A question that goes on."""

    follow: Annotated[bool, typer.Option("--follow", help="Answer for new records as they come, until Ctrl-C.")] = False
    start_from: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PLACE", help=f"With --follow: beginning, end (default), or a time: {TIME_FORMS}."
        ),
    ] = None
    watermark: Annotated[
        list[str] | None,
        typer.Option(metavar="[TOPIC.]COLUMN=DELAY", help="With --follow: a row that is later is not counted."),
    ] = None


@app.command()
@on_cluster
def sql(
    cluster: ClusterClient,
    statement: Annotated[
        str | None, typer.Argument(metavar="[STATEMENT]", help="Without it, a shell.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="A script: statements that end in ;")
    ] = None,
    *,
    printing: OutputOptions,
    tables: TableOptions,
    inserting: InsertingOptions,
    following: FollowingOptions,
) -> None:
    """Ask questions in SQL: every topic is a table.

    \b
    penstock sql "SELECT status, count(*) FROM orders GROUP BY status"
    penstock sql "SELECT * FROM orders WHERE _timestamp > now() - INTERVAL 1 HOUR" --output json
    penstock sql                    a shell with history and completion
    """
    require("sql", "penstock sql")  # nothing is imported: that takes time which Spark's start can use
    if statement is not None and file is not None:
        raise UsageError("a statement and --file are two questions", "Give one of them.")
    printer = open_printer(printing.output, printing.limit, printing.to)
    text = read_text(str(file)) if file is not None else statement
    is_shell = text is None and sys.stdin.isatty()
    wishes = replace(_wishes(cluster, tables, inserting), is_stream=following.follow)
    known = _known(wishes)
    showing = Showing(printer, printing.timing or is_shell, set() if is_shell else None)
    starting = Starting(lambda: _open(wishes, known), Engine.warm_up if is_shell else None)
    check_places(wishes, inserting.checkpoint, printing.to)
    if is_shell:
        if following.follow:
            raise UsageError("--follow follows one question", 'Write it: penstock sql --follow "SELECT ..."')
        _run_shell(cluster, starting, known, showing)
        return
    from penstock.pipelines.runtime.spark.signals import run_until_signalled

    statements = read_statements(read_text("-") if text is None else text, is_explained=printing.explain)
    if following.follow:
        check_following(statements[-1], following.start_from, following.watermark)
    script = Script(statements, showing, printing, inserting, following)

    def check() -> None:
        cluster.check_reachable()
        check_tables(statements, known, wishes)

    run_until_signalled(lambda course: _run_script(course, starting, script, check))


@dataclass(frozen=True, slots=True)
class Script:
    """Statements, and what is done with their answers."""

    statements: list[str]
    showing: Showing
    printing: OutputOptions
    inserting: InsertingOptions
    following: FollowingOptions


def _run_shell(cluster: ClusterClient, starting: Starting, known: Known, showing: Showing) -> None:
    """Ctrl-C is for the prompt and for questions. SIGTERM ends everything."""
    from penstock.cli.commands.sql.shell import Shell
    from penstock.pipelines.runtime.spark.jvm import JVM
    from penstock.pipelines.runtime.spark.signals import left_by_termination

    try:
        with left_by_termination():
            starting.start()
            cluster.check_reachable()  # long before Spark is there
            Shell(starting, known, showing).run()
    except SystemExit:
        JVM.end()
        raise CliError("interrupted", "", ExitCode.INTERRUPTED) from None
    leave()


def _run_script(course: Course, starting: Starting, script: Script, check: Callable[[], None]) -> None:
    """What is certain to fail is found while Spark starts."""
    starting.start()
    with starting.ended_by_errors():
        check()
    try:
        engine = starting.engine()
        course.doing = ""
        if script.following.follow:
            _follow(course, engine, script)
        else:
            run_all(engine, script.statements, script.showing)
    finally:
        leave()


def _follow(course: Course, engine: Engine, script: Script) -> None:
    from penstock.cli.commands.sql.follow import follow_options, follow_statement
    from penstock.pipelines.sql.sql_session import SqlSession

    assert isinstance(engine, SqlSession), "only Spark has streams"
    *first, last = script.statements  # a script may make views for the question that is followed
    run_all(engine, first, script.showing)
    following = script.following
    options = follow_options(following.start_from, following.watermark, script.inserting.checkpoint, script.printing.to)
    printer = open_batch_printer(script.printing.output, script.printing.limit)
    follow_statement(course, engine, last, printer, options)


def leave() -> None:
    """The JVM ends by itself when this process does, and nobody has to wait for that."""
    sys.stdout.flush()


def _wishes(cluster: ClusterClient, tables: TableOptions, inserting: InsertingOptions) -> Wishes:
    from penstock.pipelines.options import ANY_LATENESS_MS
    from penstock.pipelines.sql.insert import InsertOptions
    from penstock.pipelines.sql.sql_session import Wishes

    settings = parse_settings(tables.assignments, "setting of Spark")
    output.warn_of_secrets(tables.assignments)
    for name in settings:
        if not name.startswith("spark."):
            raise UsageError(f"{name} is no setting of Spark", "--set takes spark.KEY=VALUE.")
    return Wishes(
        bootstrap_servers=cluster.bootstrap_servers,
        kafka=dict(cluster.settings),
        registry=registry_properties(tables.registry_url, tables.registry_config),
        bad_rows=tables.bad_rows.value,
        lateness_ms=ANY_LATENESS_MS if tables.lateness == "none" else parse_duration_ms(tables.lateness),
        subjects=dict(parse_pair(text, "TOPIC=SUBJECT") for text in tables.subject or ()),
        views=tables.views,
        spark=settings,
        is_hive=tables.hive,
        inserting=InsertOptions(
            checkpoint=inserting.checkpoint,
            create_partitions=inserting.create_partitions,
            format="" if inserting.schema_format is None else inserting.schema_format.value,
        ),
    )


def registry_properties(url: str | None, config: Path | None) -> dict[str, str] | None:
    """None where no registry is named and none answers where one would be by default. What nobody has named is told to
    who looks on."""
    from penstock.core.config.types import ConfigError
    from penstock.core.properties import read_properties

    try:
        properties = {} if config is None else dict(read_properties(config))
    except ConfigError as error:
        raise UsageError(error.message, "Check the file given to --registry-config.") from None
    output.warn_of_login(url, LOGIN_ELSEWHERE)
    chosen = url or properties.get("schema.registry.url") or os.environ.get(REGISTRY_VARIABLE)
    if chosen is None:
        if not is_registry(DEFAULT_REGISTRY):
            if sys.stderr.isatty():
                output.note(
                    f"No registry answers at {DEFAULT_REGISTRY}; records are read without, --registry names one."
                )
            return None
        if sys.stderr.isatty():
            output.note(f"Schemas are those of the registry at {DEFAULT_REGISTRY}; --registry names another.")
    return {**properties, "schema.registry.url": chosen or DEFAULT_REGISTRY}


def is_registry(address: str) -> bool:
    """Whether what listens there answers as a registry does: with the kinds of schemas it knows, or with a refusal in
    its own form."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(address.rpartition("/")[2], timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", "/schemas/types")
        answer = connection.getresponse()
        said = json.loads(answer.read(_MOST_PROBED))
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        connection.close()
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return isinstance(said, dict) and "error_code" in said
    return answer.status == HTTPStatus.OK and isinstance(said, list) and "AVRO" in said


def _known(wishes: Wishes) -> Known:
    from penstock.core.config.types import ConfigError
    from penstock.pipelines.errors import PipelineError
    from penstock.pipelines.sql.sql_session import Known

    try:
        return Known.open(wishes)
    except PipelineError as error:
        raise explained(error) from error
    except ConfigError as error:
        raise UsageError(error.message, "Check --registry and the file given to --registry-config.") from error


def _open(wishes: Wishes, known: Known) -> Engine:
    from penstock.pipelines.sql.sql_session import open_sql_session

    return open_sql_session(wishes, known)
