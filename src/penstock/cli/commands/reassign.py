"""`penstock reassign`: plan moves of replicas, carry them out, look at them, and call them off.

The files are those of kafka-reassign-partitions, so that either tool can go on where the other one began.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from penstock.admin.state.partitions import PartitionState
from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient, raise_failures
from penstock.cli.access.cluster_now import read_cluster, read_files, sizes_of
from penstock.cli.access.moves import cancel_moves, move_directories
from penstock.cli.commands.replica_moves import (
    Pace,
    begin_moves,
    check_wanted,
    end_throttles,
    find_stranded,
    find_throttled,
    look,
    look_twice,
    raise_unmoved,
    wait_for_moves,
)
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, Yes, confirm, on_cluster, read_text
from penstock.cli.plans.assignments import (
    ClusterNow,
    Reassignment,
    ReplicaPlace,
    choose_partitions,
    format_reassignment,
    parse_broker_ids,
    parse_reassignment,
    parse_topics,
)
from penstock.cli.plans.progress import bytes_to_move, directory_moves_under_way
from penstock.cli.plans.spread import Wish, changed_only, plan_spread
from penstock.cli.plans.throttles import parse_rate
from penstock.cli.text import format_size, plural
from penstock.cli.views.moves import (
    PlanView,
    balance_table,
    move_table,
    overview_document,
    plan_document,
    plan_fields,
    summary,
)
from penstock.core.types import TopicPartition

app = typer.Typer(
    help="Move replicas between brokers, with the files of kafka-reassign-partitions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[str, typer.Argument(metavar="FILE", help="What `plan` wrote; - is the input.", show_default=False)]
OptionalFile = Annotated[
    str | None, typer.Argument(metavar="FILE", help="What `plan` wrote; - is the input.", show_default=False)
]
_EMPTY = "There is nothing to do: the plan is empty."
KeepThrottles = Annotated[
    bool, typer.Option("--keep-throttles", help="Leave the throttles as they are, also when all is done.")
]


# ---------------------------------------------------------------------------------------------------- plan


@dataclass(frozen=True, slots=True)
class What:
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", autocompletion=complete_topic, help="Only this topic; may be repeated."),
    ] = None
    topics_file: Annotated[
        str | None,
        typer.Option("--topics-file", "-f", metavar="FILE", help='Only these: {"version":1,"topics":[{"topic":..}]}.'),
    ] = None

    def choose(self, now: ClusterNow) -> dict[TopicPartition, PartitionState]:
        names = list(self.topic or ()) + (parse_topics(read_text(self.topics_file)) if self.topics_file else [])
        return choose_partitions(now, names or None)


@dataclass(frozen=True, slots=True)
class Where:
    to: Annotated[
        list[str] | None, typer.Option("--to", metavar="ID,...", help="Only these brokers.  [default: all]")
    ] = None
    drain: Annotated[
        list[str] | None, typer.Option("--drain", metavar="ID,...", help="Away from these brokers; the rest stays.")
    ] = None
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="The new factor; the rest stays.")
    ] = None
    balance: Annotated[
        bool, typer.Option("--balance", help="With --drain or --replication-factor: even out the rest as well.")
    ] = False
    ignore_racks: Annotated[bool, typer.Option("--ignore-racks", help="As if brokers had no racks.")] = False

    def wish(self, now: ClusterNow) -> Wish:
        leaving = set(parse_broker_ids(self.drain or ()))
        chosen = parse_broker_ids(self.to) if self.to else list(now.brokers)
        unknown = [node for node in chosen if node not in now.brokers]
        if unknown:
            raise CliError(f"there is no broker {unknown[0]}", f"There are {', '.join(map(str, now.brokers))}.")
        missing = [node for node in now.missing_brokers if node not in leaving]
        if missing and not self.to:
            raise CliError(
                f"broker {missing[0]} has replicas and is not there",
                "Start it first. If it will not come back: --drain its id, or --to the brokers that are to have all.",
            )
        racks = {node: None if self.ignore_racks else now.brokers[node].rack for node in chosen if node not in leaving}
        is_narrow = bool(self.drain or self.replication_factor) and not self.to
        return Wish(racks, self.replication_factor, self.balance or not is_narrow)


@app.command()
@on_cluster
def plan(
    cluster: ClusterClient,
    what: What,
    where: Where,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the plan there.")] = None,
    rollback: Annotated[
        Path | None, typer.Option("--rollback", metavar="FILE", help="Write there what brings everything back.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show where replicas should go: evenly over the brokers, in different racks, with as few moves as possible.

    Nothing is changed. Without --topic all topics are planned, internal ones too. --drain and --replication-factor
    move only what they must.
    """
    now = read_cluster(cluster)
    chosen = what.choose(now)
    wish = where.wish(now)
    current = {key: partition.target for key, partition in chosen.items()}
    planned = plan_spread(current, wish)
    proposed = changed_only(current, planned)
    before = {key: current[key] for key in proposed}
    sizes = sizes_of(read_files(cluster, now.brokers.values(), proposed)) if proposed else {}
    view = PlanView(before, proposed, bytes_to_move(now, proposed, sizes))
    if out is not None:
        out.write_text(format_reassignment(proposed) + "\n", encoding="utf-8")
    if rollback is not None:
        rollback.write_text(format_reassignment(before) + "\n", encoding="utf-8")
    if as_json:
        output.print_json(plan_document(view))
        return
    output.print_fields(plan_fields(view))
    output.say("")
    output.print_table(balance_table(current, planned, wish.brokers))
    if not proposed:
        output.note("Nothing has to move.")
        return
    if rollback is None:
        output.say(f"\nCurrent assignment; applied, it brings everything back:\n{format_reassignment(before)}")
    if out is None:
        output.say(f"\nProposed assignment:\n{format_reassignment(proposed)}")
    output.note(f"Nothing was changed. Do it: penstock reassign apply {out or 'FILE'}")


# ---------------------------------------------------------------------------------------------------- apply


@app.command()
@on_cluster
def apply(
    cluster: ClusterClient,
    file: File,
    pace: Pace,
    additional: Annotated[
        bool, typer.Option("--additional", help="Accept that other partitions are being moved already.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would move, but change nothing.")] = False,
    yes: Yes = False,
) -> None:
    """Move replicas to where the file wants them, throttled, and wait until they are there.

    Clients go on meanwhile. Killing the command stops no move: `status` shows what is left and ends the throttles.
    To apply a file again does no harm.
    """
    parse_rate(pace.throttle)
    wanted = parse_reassignment(read_text(file))
    if not wanted.replicas:
        output.note(_EMPTY)
        return
    now = read_cluster(cluster)
    check_wanted(now, wanted)
    strangers = now.moving.keys() - wanted.replicas.keys()
    if strangers and not additional:
        raise CliError(
            f"{plural(len(strangers), 'other partition')} move already, among them {min(strangers)}",
            "Wait for them (penstock reassign status --wait), or add --additional.",
        )
    pending = {key: replicas for key, replicas in wanted.replicas.items() if now.partitions[key].target != replicas}
    fewer = [key for key, replicas in pending.items() if len(replicas) < len(now.partitions[key].target)]
    sizes = sizes_of(read_files(cluster, now.brokers.values(), pending)) if pending else {}
    volume = format_size(sum(bytes_to_move(now, pending, sizes).values()))
    if dry_run:
        output.note(f"Would move {plural(len(pending), 'partition')} and copy {volume}. Nothing was changed.")
        return
    if fewer:
        confirm(f"{plural(len(fewer), 'partition')} will have fewer replicas than now. Go on?", yes)
    count = begin_moves(cluster, now, wanted, pace.throttle)
    began = f"{plural(count, 'partition')} began to move; {volume} to copy."
    output.note(began if count else "All partitions of the file are there, or on their way.")
    if not pace.wait:
        output.note(f"`penstock reassign status {file}` shows what is left, and ends the throttles.")
        return
    _finish(cluster, wanted, find_throttled(now, wanted, pace.throttle))


def _finish(cluster: ClusterClient, wanted: Reassignment, throttled: set[str]) -> None:
    now, overview = wait_for_moves(cluster, wanted)
    end_throttles(cluster, now, throttled)
    raise_unmoved(overview)
    late = sum(now.partitions[key].leader != replicas[0] for key, replicas in wanted.replicas.items())
    output.note(f"Done: {plural(len(wanted.replicas), 'partition')} as in the file.")
    if late:
        output.note(f"{plural(late, 'partition')} of them wait for their preferred leader. {election_hint(cluster)}")


def election_hint(cluster: ClusterClient) -> str:
    settings = ", with the --command-config or -X of this command" if cluster.settings else ""
    return f"The controller looks after that in a few minutes, or now: penstock leaders elect --all{settings}"


# ---------------------------------------------------------------------------------------------------- status, cancel


@app.command()
@on_cluster
def status(
    cluster: ClusterClient,
    file: OptionalFile = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing moves any more.")] = False,
    keep_throttles: KeepThrottles = False,
    as_json: AsJson = False,
) -> None:
    """Show the moves under way, or those of a file, with what is left. When all are done, the throttles are removed.

    Fails when a partition of the file does not move and is not as in the file.
    """
    wanted = None if file is None else parse_reassignment(read_text(file))
    if wait:
        now, overview = wait_for_moves(cluster, wanted, may_begin=False)
        seconds: float | None = 0.0
    else:
        now, overview, seconds = look_twice(cluster, wanted)
        if wanted is not None:
            overview = overview._replace(stranded=find_stranded(cluster, now, wanted))
    if as_json:
        output.print_json(overview_document(overview, seconds))
    else:
        nothing = "Nothing moves." if wanted is None else "" if wanted.replicas else _EMPTY
        output.print_table(move_table(overview.moves), nothing)
        if overview.moves:
            output.note(summary(overview, seconds))
    if not keep_throttles and not now.moving and not _moves_directories(cluster, now, wanted):
        end_throttles(cluster, now, None if wanted is None else {key.topic for key in wanted.replicas})
    raise_unmoved(overview)


def _moves_directories(cluster: ClusterClient, now: ClusterNow, wanted: Reassignment | None) -> bool:
    if wanted is None or not wanted.directories:
        return False
    files = read_files(cluster, now.brokers.values(), {place.key for place in wanted.directories})
    moving = directory_moves_under_way(wanted.directories, files)
    for place in moving:
        output.note(f"{place} is on its way from {files[place].directory} to {files[place].future_directory}.")
    return bool(moving)


@app.command()
@on_cluster
def cancel(
    cluster: ClusterClient,
    file: OptionalFile = None,
    everything: Annotated[bool, typer.Option("--all", help="All moves that are under way.")] = False,
    keep_throttles: KeepThrottles = False,
    yes: Yes = False,
) -> None:
    """Stop moves: the replicas stay where they were, and what was copied already is dropped."""
    if (file is None) != everything:
        raise UsageError("say which moves to cancel", "Give either a FILE or --all.")
    wanted = None if file is None else parse_reassignment(read_text(file))
    now, overview = look(cluster, wanted)
    keys = [move.key for move in overview.moves if move.key in now.moving]
    between_disks = _directory_moves(cluster, now, wanted)
    if everything and (keys or between_disks):
        disks = f", and {plural(len(between_disks), 'move')} between disks" if between_disks else ""
        confirm(f"Cancel the moves of {plural(len(keys), 'partition')}{disks}?", yes)
    failures = cancel_moves(cluster, keys)
    stuck = move_directories(cluster, now.brokers, between_disks)
    cancelled = len(keys) - len(failures) + len(between_disks) - len(stuck)
    output.note(f"Cancelled {plural(cancelled, 'move')}." if keys or between_disks else "Nothing of it moves.")
    if not keep_throttles:
        topics = None if wanted is None else {key.topic for key in wanted.replicas}
        end_throttles(cluster, read_cluster(cluster), topics, between_disks.keys() - stuck.keys())
    raise_failures([*failures.values(), *stuck.values()])


def _directory_moves(cluster: ClusterClient, now: ClusterNow, wanted: Reassignment | None) -> dict[ReplicaPlace, str]:
    """The replicas of the file, or all, that are on their way to another disk, and where they are. To cancel a move a
    replica is told to move to where it is, as Kafka's tool does it."""
    if wanted is not None and not wanted.directories:
        return {}
    keys = None if wanted is None else {place.key for place in wanted.directories}
    files = read_files(cluster, now.brokers.values(), keys)
    chosen = dict.fromkeys(files, "") if wanted is None else wanted.directories
    return {
        place: directory
        for place in directory_moves_under_way(chosen, files)
        if (directory := files[place].directory) is not None
    }
