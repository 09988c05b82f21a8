"""Runs as people and programs see them, and what is said about an answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.cli.errors import CliError
from penstock.cli.output import Table
from penstock.cli.times import format_time
from penstock.runs.commands import CommandAnswer
from penstock.runs.overview import Overview, SeenRun, newest_first
from penstock.runs.records import CommandOutcome, State, Verb

_LIST_HINT = "`penstock pipeline list --running` shows the runs, `--all` those that have ended too."
_REACHED = {Verb.PAUSE: "paused", Verb.RESUME: "running", Verb.STOP: "stopped", Verb.RESTART: "restarted"}


def run_table(runs: Iterable[SeenRun], now_ms: int) -> Table:
    table = Table(("NAME", "RUN", "STATE", "HOST", "STARTED", ">ROWS/S", ">LAG", ">HEARTBEAT"))
    for run in runs:
        record = run.record
        table.add(
            record.name,
            record.run,
            run.state(now_ms),
            record.host,
            format_time(record.started_ms),
            f"{record.rows_in_per_s:,.0f}",
            f"{record.lag:,}",
            f"{run.age_ms(now_ms) / 1000:,.0f} s ago",
        )
    return table


def run_document(run: SeenRun, now_ms: int) -> dict[str, Any]:
    record = run.record
    return {
        "run": record.run,
        "type": record.type,
        "name": record.name,
        "state": str(run.state(now_ms)),
        "last_state": str(record.state),
        "host": record.host,
        "pid": record.pid,
        "version": record.version,
        "started_ms": record.started_ms,
        "changed_ms": record.changed_ms,
        "heartbeat_age_ms": run.age_ms(now_ms),
        "restarts": record.restarts,
        "rows_in_per_s": record.rows_in_per_s,
        "rows_out_per_s": record.rows_out_per_s,
        "lag": record.lag,
        "error": record.error,
        "parts": [
            {
                "part": part.part,
                "batch": part.batch,
                "batch_ms": part.batch_ms,
                "rows_in": part.rows_in,
                "rows_out": part.rows_out,
                "lag": part.lag,
                "watermark": part.watermark,
                "written": dict(part.written),
            }
            for part in record.parts
        ],
    }


def choose_listed(overview: Overview, kind: str, with_ended: bool) -> list[SeenRun]:
    of_kind = (run for run in overview.runs.values() if run.record.type == kind)
    return newest_first(run for run in of_kind if with_ended or not run.is_ended)


def choose_run(overview: Overview, kind: str, text: str, now_ms: int) -> SeenRun:
    """The one live run that is meant by an id or a name."""
    named = [run for run in overview.named(text) if run.record.type == kind]
    live = [run for run in named if not run.is_ended and not run.is_overdue(now_ms)]
    if len(live) == 1:
        return live[0]
    if live:
        listed = "\n".join(f"  {run.record.run} on {run.record.host}, {run.record.state}" for run in live)
        raise CliError(f"{text} has {len(live)} runs: name one of them", listed)
    if not named:
        raise CliError(f"there is no run {text!r}, and no run of a {kind} with that name", _LIST_HINT)
    silent = [run for run in named if not run.is_ended]
    if silent:
        last = silent[0]
        raise CliError(
            f"{last.record.run} has sent no heartbeat for {last.age_ms(now_ms) / 1000:,.0f} s: it is lost",
            f"It ran on {last.record.host} as process {last.record.pid}. Start it again there or elsewhere.",
        )
    last = named[0]
    error = f": {last.record.error}" if last.record.error else ""
    raise CliError(f"{last.record.run} has {last.record.state}{error}", "Start it again with `penstock pipeline run`.")


def answer_text(verb: Verb, answer: CommandAnswer, waited_s: float) -> str:
    """What happened. Raises CliError where that is not what was asked for."""
    record, acknowledgement = answer.run.record, answer.acknowledgement
    if acknowledgement is None:
        if record.state is State.STOPPED and verb is Verb.STOP:
            return f"{record.run}: stopped"
        if answer.run.is_ended:
            raise CliError(f"{record.run} has {record.state} before the command came", record.error)
        raise CliError(
            f"{record.run} did not answer within {waited_s:g} s",
            "The command is valid for a minute. Wait longer with --wait, and look at the run's log.",
        )
    if acknowledgement.outcome is CommandOutcome.DONE:
        return f"{record.run}: {_REACHED[verb]} ({acknowledgement.text})"
    if acknowledgement.outcome is CommandOutcome.ACCEPTED:
        raise CliError(
            f"{record.run} is still {record.state} after {waited_s:g} s: {acknowledgement.text}",
            "The command holds; `penstock pipeline list --running` shows when it is done.",
        )
    raise CliError(f"{record.run}: {verb} was {acknowledgement.outcome}: {acknowledgement.text}")


def ignored_note(topic: str, ignored: Mapping[str, int]) -> str:
    reasons = "; ".join(f"{count} x {reason}" for reason, count in ignored.items())
    return f"Records of {topic} were ignored: {reasons}."
