"""Checks statements before Spark is there: certain failures come at once, before anything is done."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from penstock.pipelines.errors import PipelineError, RefusedLoginError, SqlError, TableError
from penstock.pipelines.kafka.broker_patience import is_away
from penstock.pipelines.preflight.places import has_settings_elsewhere
from penstock.pipelines.preflight.topics import READ, WRITE, Need, check_needs
from penstock.pipelines.source.cluster import ClusterError
from penstock.pipelines.sql.preflight.certainty import refuse_open, tables_of
from penstock.pipelines.sql.sql_session import Known, Wishes, refused_change
from penstock.pipelines.sql.statements import (
    ChangeTable,
    Command,
    CreateView,
    Describe,
    DropView,
    Explain,
    Insert,
    Query,
    Statement,
    parse_statement,
)
from penstock.pipelines.sql.views import with_view, without_view
from penstock.pipelines.tables.connection import KafkaConnection
from penstock.pipelines.tables.table import LATEST_SUFFIX

# Settings by which a session may have tables that are not topics, or names that mean something else.
_OTHER_TABLES = ("spark.sql.", "spark.hadoop.", "spark.jars", "spark.plugins", "spark.driver.extra", "spark.submit.")


def check_words(text: str) -> Statement:
    """SqlError for a statement that is certain to be none."""
    statement = parse_statement(text)
    question = _question_of(statement)
    if question:
        refuse_open(question)
    return statement


def check_script(
    statements: Sequence[str], known: Known, wishes: Wishes, environment: Mapping[str, str] = os.environ
) -> None:
    """PipelineError for the first statement that is certain to fail, whatever those before it do."""
    read = [check_words(text) for text in statements]
    is_plain = is_plain_session(wishes, environment)
    made: set[str] = set()  # by the script, in small letters
    views: Mapping[str, str] = known.views.queries
    for statement in read:
        views = _changed_views(statement, views)
        if is_plain and isinstance(statement, ChangeTable):
            _check_no_topic(statement, known)
        if isinstance(statement, Command | ChangeTable):
            is_plain = False  # it may make tables, or change what names mean
        if is_plain:
            topics = _check_tables(statement, known, made)
            if isinstance(statement, Query | Insert):
                _check_readable(topics, known)
        if isinstance(statement, Insert):
            _check_target(statement, known.catalog.connection, wishes)
            made.add(statement.topic.lower())
        if isinstance(statement, CreateView):
            made.add(statement.name.lower())


def is_plain_session(wishes: Wishes, environment: Mapping[str, str]) -> bool:
    """Whether the session will have no tables but topics, and views that are kept."""
    is_other = any(name.startswith(_OTHER_TABLES) for name in wishes.spark)
    return not (wishes.is_hive or is_other or has_settings_elsewhere(environment))


def _changed_views(statement: Statement, views: Mapping[str, str]) -> Mapping[str, str]:
    """The views that are kept when the statement is done."""
    changed = None
    if isinstance(statement, CreateView):
        changed = with_view(statement, views)
    if isinstance(statement, DropView):
        changed = without_view(statement, views)
    return views if changed is None else changed


def _check_no_topic(statement: ChangeTable, known: Known) -> None:
    try:
        is_topic = statement.name in known.catalog.topics()
    except TableError as error:
        if not _may_pass(error):
            raise
        return
    if is_topic:
        raise refused_change(statement.verb, statement.name)


def _question_of(statement: Statement) -> str:
    match statement:
        case Query(question) | Explain(question):
            return question
        case CreateView() | Insert():
            return statement.query
        case _:
            return ""


def _check_tables(statement: Statement, known: Known, made: set[str]) -> list[str]:
    """The topics among its tables."""
    if isinstance(statement, CreateView) and statement.if_not_exists and _is_view(statement.name, known, made):
        return []  # it stays as it is, whatever the question
    names = [statement.name] if isinstance(statement, Describe) else tables_of(_question_of(statement))
    found = [
        _look_up(name, known)
        for name in names
        if not _is_view(name.removesuffix(LATEST_SUFFIX), known, made) and known.views.name_of(name) is None
    ]
    return [topic for topic in found if topic]


def _is_view(name: str, known: Known, made: set[str]) -> bool:
    return name.lower() in made or known.views.name_of(name) is not None


def _look_up(name: str, known: Known) -> str:
    """The topic, or nothing where no broker answers. Looks up the columns too, so a fault of the schema, or a missing
    right to see it, is an error here."""
    try:
        return known.catalog.table(name).topic
    except TableError as error:
        if not _may_pass(error):
            raise
        return ""


def _may_pass(error: TableError) -> bool:
    """True if no broker answered in time. Spark's start takes a while, and the statement tries them again after it."""
    cause = error.__cause__
    if not isinstance(cause, ClusterError) or cause.refused_login:
        return False
    inner = cause.__cause__
    return is_away(inner if isinstance(inner, Exception) else cause)


def _check_readable(topics: Sequence[str], known: Known) -> None:
    """The columns of a topic with a schema in the registry come without a look at its records, and so without the right
    to read them. An empty topic can be read without that right."""
    settings = _client_settings(known.catalog.connection)
    for topic in sorted(set(topics)):
        try:
            _check_need(Need(topic, READ, "the question fails", settings, may_be_missing=True))
        except SqlError:
            if any(each.size for each in known.catalog.ranges([topic])):
                raise


def _check_target(statement: Insert, connection: KafkaConnection, wishes: Wishes) -> None:
    if wishes.inserting.create_partitions:
        return
    hint = "Create it, or say with how many partitions: --create-partitions 3."
    _check_need(Need(statement.topic, WRITE, "INSERT INTO fails", _client_settings(connection), hint))


def _client_settings(connection: KafkaConnection) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(connection.fetch_options().settings.items()))


def _check_need(need: Need) -> None:
    try:
        check_needs([need])
    except RefusedLoginError:  # its class is the exit code of a command
        raise
    except PipelineError as error:
        raise SqlError(error.message, error.hint) from error
