"""`penstock audit`: who did what. Reads the trail's files, or its topic by way of the brokers."""

from __future__ import annotations

import contextlib
import enum
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.security.audit_trail import follow_file, read_files, read_topic
from penstock.cli.errors import CliError
from penstock.cli.options import AsJson, on_cluster
from penstock.cli.text import plural
from penstock.cli.times import TIME_FORMS, parse_time_ms
from penstock.security.audit.cloud_events import Kept, decode, flatten
from penstock.security.audit.selection import Selection, count_by
from penstock.security.audit.trail_check import AuditFinding, Check

app = typer.Typer(help="Look into the audit trail.", no_args_is_help=True, rich_markup_mode=None)

TrailFile = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="Read this file and its closed ones instead of the topic."),
]


class KindOption(enum.StrEnum):
    LOGIN = "login"
    DENIAL = "denial"
    CHANGE = "change"
    READ = "read"
    WRITE = "write"
    TRAIL = "trail"


_OFF_BY_DEFAULT = {KindOption.READ, KindOption.WRITE}


class AuditField(enum.StrEnum):
    KIND = "kind"
    WHAT = "what"
    PRINCIPAL = "principal"
    ADDRESS = "address"
    RESOURCE = "resource"
    OPERATION = "operation"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """Which events are shown. Texts may have * and ?."""

    kind: Annotated[list[KindOption] | None, typer.Option("--kind", "-k", help="Only this kind; repeatable.")] = None
    principal: Annotated[str | None, typer.Option(help="Who, as User:alice.")] = None
    address: Annotated[str | None, typer.Option(help="From where.")] = None
    resource: Annotated[str | None, typer.Option(help="On what, as Topic:orders.")] = None
    operation: Annotated[str | None, typer.Option(help="What was to be done, as CreateAcl or Read.")] = None
    denied: Annotated[bool, typer.Option("--denied", help="Only what was refused or failed.")] = False
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"From then on: {TIME_FORMS}.")] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before then.")] = None

    def selection(self) -> Selection:
        now_ms = time.time_ns() // 1_000_000
        return Selection(
            frozenset(each.value for each in self.kind or ()),
            self.principal,
            self.address,
            self.resource,
            self.operation,
            self.denied,
            None if self.since is None else parse_time_ms(self.since, now_ms),
            None if self.until is None else parse_time_ms(self.until, now_ms),
        )


@app.command()
@on_cluster
def show(
    cluster: ClusterClient,
    *,
    file: TrailFile = None,
    selecting: SelectionOptions,
    by: Annotated[list[AuditField] | None, typer.Option("--by", help="Count by this instead; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the events of the trail, or count them.

    \b
    Who changed which ACL:        audit show --kind change --operation '*Acl'
    Who read orders:              audit show --kind read --resource Topic:orders --by principal
    Failed logins per address:    audit show --kind login --denied --by address
    """
    selection = selecting.selection()
    lines = read_files(file) if file is not None else read_topic(cluster)
    events = sorted((kept for kept in _decoded(lines) if selection.wants(kept)), key=_place)
    if by:
        _print_counts(events, tuple(each.value for each in by), as_json)
    elif as_json:
        output.print_json_lines(flatten(kept) for kept in events)
    else:
        output.print_table(_table(events), "no events")
    if not events and not as_json and set(selecting.kind or ()) & _OFF_BY_DEFAULT:
        output.note(
            "Reads and writes are told when penstock.audit.kinds of the brokers names them; by default it does not."
        )


@app.command()
@on_cluster
def follow(
    cluster: ClusterClient, *, file: TrailFile = None, selecting: SelectionOptions, as_json: AsJson = False
) -> None:
    """Show events as they come, until stopped."""
    selection = selecting.selection()
    lines = follow_file(file) if file is not None else read_topic(cluster, follow=True)
    with contextlib.suppress(KeyboardInterrupt):
        for kept in _decoded(lines):
            if not selection.wants(kept):
                continue
            if as_json:
                output.print_json_lines((flatten(kept),))
            else:
                output.say("  ".join(_cells(kept)))
            sys.stdout.flush()


@app.command()
@on_cluster
def verify(cluster: ClusterClient, *, file: TrailFile = None, as_json: AsJson = False) -> None:
    """Check that no event is missing, repeated or changed. Ends with 1 when one is."""
    check = Check()
    findings: list[AuditFinding] = []
    for line in read_files(file) if file is not None else _in_order(read_topic(cluster)):
        findings += check.take_line(line)
    if as_json:
        documents = [
            {"source": each.source, "problem": each.problem, "first": each.first, "last": each.last, "time": each.time}
            for each in findings
        ]
        output.print_json({"events": check.count, "sources": check.sources, "findings": documents})
    else:
        for each in findings:
            numbers = f"{each.first}" if each.first == each.last else f"{each.first} to {each.last}"
            output.say(f"{each.source}  {each.time}  {numbers}  {each.problem}: {each.text}")
        output.say(f"{plural(check.count, 'event')} of {plural(len(check.sources), 'broker')}")
    if findings:
        raise CliError(f"{plural(len(findings), 'finding')} in the audit trail")


_COLUMNS = ("TIME", "BROKER", "NUMBER", "KIND", "RESULT", "PRINCIPAL", "ADDRESS", "WHAT", "RESOURCE", "MORE")


def _decoded(lines: Iterable[bytes]) -> Iterator[Kept]:
    for line in lines:
        try:
            yield decode(line)
        except ValueError as error:
            output.note(f"skipped a line that is no event: {error}")


def _place(kept: Kept) -> tuple[str, str, int]:
    return kept.time, kept.source, kept.number


def _in_order(lines: Iterable[bytes]) -> list[bytes]:
    """Events of a topic, broker by broker. One that was written twice, because an answer was lost, is there once."""
    numbered: dict[tuple[str, int], bytes] = {}
    for line in lines:
        with contextlib.suppress(ValueError):
            kept = decode(line)
            numbered.setdefault((kept.source, kept.number), line)
    return [numbered[key] for key in sorted(numbered)]


def _print_counts(events: Iterable[Kept], fields: tuple[str, ...], as_json: bool) -> None:
    counts = count_by(events, fields)
    if as_json:
        output.print_json([{**dict(zip(fields, row, strict=True)), "count": count} for row, count in counts])
        return
    table = output.Table((*(name.upper() for name in fields), ">COUNT"))
    for row, count in counts:
        table.add(*row, f"{count:,}")
    output.print_table(table, "no events")


def _table(events: Iterable[Kept]) -> output.Table:
    table = output.Table(
        ("TIME", "BROKER", "NUMBER", "KIND", "RESULT", "PRINCIPAL", "ADDRESS", "WHAT", "RESOURCE", "MORE")
    )
    for kept in events:
        table.add(*_cells(kept))
    return table


def _cells(kept: Kept) -> tuple[str, ...]:
    event = kept.event
    more = [f"by {event.rule}"] if event.rule else []
    more += [f"{name}={value}" for name, value in event.details.items()]
    what = f"{event.what} {event.operation}".rstrip()
    return (
        kept.time,
        kept.source.rpartition("/")[2],
        str(kept.number),
        str(event.kind),
        "ok" if event.is_allowed else "REFUSED",
        event.principal or "-",
        event.address or "-",
        what,
        event.resource or "-",
        " ".join(more),
    )
