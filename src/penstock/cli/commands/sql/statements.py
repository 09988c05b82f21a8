"""Runs statements and shows their answers: rows on standard output, everything else on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.cli import output
from penstock.cli.commands.sql.answer_watch import watched
from penstock.cli.commands.sql.engine import Engine
from penstock.cli.commands.sql.row_printer import Printed, Printer
from penstock.cli.errors import CliError, ExitCode, explain_exception
from penstock.cli.text import plural
from penstock.core.words.visible_text import harmless
from penstock.pipelines.runtime.spark.interruptible_task import run_interruptibly

# More than a person reads; what comes after is said each time.
_MOST_TOLD = 1000


@dataclass(slots=True)
class Showing:
    """How answers are shown."""

    printer: Printer
    has_timing: bool = False
    # In a shell, what is said once is not said again: that columns are inferred, for one. None: always.
    told: set[str] | None = None

    def tell(self, notice: str) -> None:
        if self.told is not None:
            if notice in self.told:
                return
            if len(self.told) < _MOST_TOLD:
                self.told.add(notice)
        output.note(notice)


def run_statement(engine: Engine, statement: str, showing: Showing) -> None:
    """Raises CliError, CancelledError, or BrokenPipeError where the reader of standard output has gone."""
    from penstock.pipelines.errors import PipelineError

    started = time.monotonic()
    try:
        with watched(engine.trouble, output.note):
            printed = run_interruptibly(lambda: _run(engine, statement, showing), engine.cancel)
    except PipelineError as error:
        raise explained(error) from error
    if printed is not None:
        tell_if_cut(printed)
    if showing.has_timing:
        took = f"{time.monotonic() - started:.2f} s"
        output.note(took if printed is None else f"{plural(printed.count, 'row')}, {took}")


def tell_if_cut(printed: Printed) -> None:
    if printed.is_cut:
        output.note(f"Only the first {plural(printed.count, 'row')} are shown; --limit says how many.")


def run_all(engine: Engine, statements: Iterable[str], showing: Showing) -> None:
    for statement in statements:
        run_statement(engine, statement, showing)


def explained(error: Exception) -> CliError:
    from penstock.pipelines.errors import PipelineError
    from penstock.pipelines.spark_log import hint_of

    assert isinstance(error, PipelineError)
    return CliError(error.message, hint_of(error), exit_code_of(error))


def exit_code_of(error: BaseException) -> ExitCode:
    """By what an error comes from: as other commands have it for a registry or a broker that is away or refuses the
    login. A worker's error is known by its name alone, in the text that Spark has of it."""
    from confluent_kafka import KafkaException

    from penstock.client.registry import RegistryAnswerError, RegistryUnreachableError

    each: BaseException | None = error
    while each is not None:
        if isinstance(each, RegistryUnreachableError) or f"{RegistryUnreachableError.__name__}: " in str(each):
            return ExitCode.UNREACHABLE
        if "kafkaConsumer.pollTimeoutMs" in str(each):  # a task has waited for its broker
            return ExitCode.UNREACHABLE
        if isinstance(each, RegistryAnswerError) and each.is_refused_login:
            return ExitCode.UNREACHABLE
        if isinstance(each, KafkaException):
            return explain_exception(each).exit_code
        each = each.__cause__ or each.__context__
    return ExitCode.FAILURE


def _run(engine: Engine, statement: str, showing: Showing) -> Printed | None:
    answer = engine.run(statement)
    for notice in answer.notices:
        showing.tell(notice)
    if answer.text:
        sys.stdout.write(harmless(answer.text).rstrip("\n") + "\n")
        sys.stdout.flush()
    if answer.rows is None:
        return None
    printed = showing.printer(answer.rows)
    for notice in engine.late_notices():
        output.note(notice)
    return printed
