"""`penstock groups reset-offsets`: show where a group's offsets would go, and move them when told to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient, list_partitions
from penstock.cli.access.groups import commit_plan, is_inactive, read_committed, read_group_if_any
from penstock.cli.access.offsets import find_offsets, find_range
from penstock.cli.completion import complete_group, complete_topic
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, on_cluster
from penstock.cli.plans.offset_reset import (
    PartitionState,
    PlannedOffset,
    Reset,
    ResetKind,
    TopicSelection,
    choose_reset,
    export_plan,
    parse_reset_file,
    parse_topic_selection,
    plan_reset,
    select_partitions,
)
from penstock.cli.text import plural
from penstock.cli.times import TIME_FORMS, parse_duration_ms, parse_time_ms
from penstock.core.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class ScopeOptions:
    """The partitions whose offsets move."""

    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:P,...]", autocompletion=complete_topic, help="Whose offsets."),
    ] = None
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Every topic the group has committed for.")] = False


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Where the offsets move to. The user gives one of these."""

    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False
    to_current: Annotated[bool, typer.Option("--to-current", help="To the committed offset.")] = False
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="To this offset.")] = None
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help=f"To the first record at: {TIME_FORMS}.")
    ] = None
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="DURATION", help="To this long ago: 90m, 7d, PT1H30M.")
    ] = None
    shift_by: Annotated[int | None, typer.Option("--shift-by", metavar="N", help="By so many, back if negative.")] = (
        None
    )
    from_file: Annotated[
        Path | None, typer.Option("--from-file", metavar="CSV", help="To the offsets of topic,partition,offset lines.")
    ] = None

    def reset(self) -> Reset:
        return choose_reset(
            to_earliest=self.to_earliest,
            to_latest=self.to_latest,
            to_current=self.to_current,
            to_offset=self.to_offset,
            to_time_ms=_choose_time(self.to_datetime, self.by_duration),
            shift_by=self.shift_by,
            from_file=self.from_file is not None,
        )


@app.command("reset-offsets")
@on_cluster
def reset_offsets(
    cluster: ClusterClient,
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_group, show_default=False)],
    scope: ScopeOptions,
    target: TargetOptions,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this nothing is changed.")] = False,
    export: Annotated[bool, typer.Option("--export", help="Print the plan as CSV for --from-file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move the committed offsets of a group that is not running. Only shows the plan unless --execute is given."""
    reset = target.reset()
    selections = [parse_topic_selection(text) for text in scope.topic or ()]
    file_offsets = _read_file(target.from_file, group) if target.from_file is not None else {}
    admin = cluster.admin()
    committed = read_committed(admin, group)
    keys = _choose_partitions(admin, selections, scope.all_topics, committed, file_offsets)
    plan = plan_reset(reset, _read_states(admin, reset, keys, committed, file_offsets))
    _show(plan, as_json=as_json, export=export)
    if not execute:
        output.note("Nothing was changed. Add --execute to do it.")
        return
    view = read_group_if_any(admin, group)
    if view is not None and not is_inactive(view):
        raise CliError(
            f"group {group} is {view.state} with {plural(len(view.members), 'member')}",
            "Offsets move only while nobody reads: stop the consumers first.",
        )
    commit_plan(admin, group, plan)
    output.note(f"Moved {plural(len(plan), 'offset')} of group {group}.")


def _choose_time(to_datetime: str | None, by_duration: str | None) -> int | None:
    now_ms = time.time_ns() // 1_000_000
    if to_datetime is not None and by_duration is not None:
        raise UsageError("--to-datetime and --by-duration exclude each other")
    if by_duration is not None:
        return now_ms - parse_duration_ms(by_duration)
    return None if to_datetime is None else parse_time_ms(to_datetime, now_ms)


def _read_file(path: Path, group: str) -> dict[TopicPartition, int]:
    try:
        return parse_reset_file(path.read_text("utf-8"), group)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None


def _choose_partitions(
    admin: AdminClient,
    selections: list[TopicSelection],
    all_topics: bool,
    committed: dict[TopicPartition, int],
    file_offsets: dict[TopicPartition, int],
) -> list[TopicPartition]:
    if file_offsets:
        by_topic: dict[str, list[int]] = {}
        for key in file_offsets:
            by_topic.setdefault(key.topic, []).append(key.partition)
        selections = [TopicSelection(topic, tuple(numbers)) for topic, numbers in by_topic.items()]
    elif all_topics:
        selections = [TopicSelection(topic, None) for topic in sorted({key.topic for key in committed})]
    if not selections:
        raise UsageError("say whose offsets to move", "Give --topic TOPIC, or --all-topics for all it has committed.")
    existing = {selection.topic: list_partitions(admin, selection.topic) for selection in selections}
    return select_partitions(selections, existing)


def _read_states(
    admin: AdminClient,
    reset: Reset,
    keys: list[TopicPartition],
    committed: dict[TopicPartition, int],
    file_offsets: dict[TopicPartition, int],
) -> dict[TopicPartition, PartitionState]:
    ranges = find_range(admin, keys)
    times = find_offsets(admin, dict.fromkeys(keys, reset.number)) if reset.kind is ResetKind.TIME else {}
    return {
        key: PartitionState(
            committed.get(key), ranges[key], times[key].offset if key in times else None, file_offsets.get(key)
        )
        for key in keys
    }


def _show(plan: list[PlannedOffset], *, as_json: bool, export: bool) -> None:
    if export:
        output.say(export_plan(plan).rstrip("\n"))
    elif as_json:
        output.print_json(
            [
                {
                    "topic": planned.key.topic,
                    "partition": planned.key.partition,
                    "committed_offset": planned.old,
                    "new_offset": planned.new,
                    "note": planned.note or None,
                }
                for planned in plan
            ]
        )
    else:
        table = output.Table(("TOPIC", ">PARTITION", ">COMMITTED", ">NEW", "NOTE"))
        for planned in plan:
            table.add(planned.key.topic, planned.key.partition, planned.old, planned.new, planned.note)
        output.print_table(table)
