"""`penstock brokers`: what each broker has, and how to take one out of service, for a while or for good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient, raise_failures
from penstock.cli.access.cluster_now import read_cluster, read_files, sizes_of, unregister_broker
from penstock.cli.access.moves import elect_leaders, start_moves
from penstock.cli.commands.replica_moves import (
    Pace,
    begin_moves,
    end_throttles,
    find_throttled,
    raise_unmoved,
    wait_for_moves,
)
from penstock.cli.errors import CliError
from penstock.cli.options import AsJson, on_cluster, read_text
from penstock.cli.plans.assignments import (
    Assignment,
    ClusterNow,
    Reassignment,
    Replicas,
    format_reassignment,
    parse_reassignment,
)
from penstock.cli.plans.demotion import plan_demotion
from penstock.cli.plans.progress import bytes_to_move
from penstock.cli.plans.spread import Wish, changed_only, plan_spread
from penstock.cli.plans.throttles import parse_rate
from penstock.cli.text import plural
from penstock.cli.views.moves import (
    PlanView,
    balance_table,
    broker_counts_table,
    count_brokers,
    plan_document,
    plan_fields,
)
from penstock.core.types import TopicPartition

app = typer.Typer(help="Look at brokers, and take one out of service.", no_args_is_help=True, rich_markup_mode=None)

BrokerId = Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, but change nothing.")]

# Topics that are made meanwhile may get replicas on a broker that is being drained. Two rounds meet most of them; who
# makes topics faster than that has to stop first.
_ROUNDS = 5


@app.command("list")
@on_cluster
def list_brokers(cluster: ClusterClient, as_json: AsJson = False) -> None:
    """Show the brokers with their replicas, what they lead, and how much that is on disk."""
    now = read_cluster(cluster)
    views = count_brokers(now, sizes_of(read_files(cluster, now.brokers.values())))
    if as_json:
        output.print_json([view._asdict() for view in views])
    else:
        output.print_table(broker_counts_table(views))


# ---------------------------------------------------------------------------------------------------- decommission


@app.command()
@on_cluster
def decommission(
    cluster: ClusterClient, broker: BrokerId, pace: Pace, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Move all replicas from a broker to the others, and say when it may stop for good.

    Only what the broker has moves, throttled. To run the command again does no harm: it goes on where it was. A broker
    that is gone is unregistered when it has no replicas any more, so that no new topic gets one there.
    """
    parse_rate(pace.throttle)
    for _ in range(_ROUNDS):
        now = read_cluster(cluster)
        view = _plan_drain(cluster, now, broker)
        if dry_run:
            _show_drain(now, broker, view, as_json)
            return
        leaving = _held(now, broker)
        if not leaving:
            break
        # What was under way before is waited for as well: it is not done while the broker has a replica.
        wanted = Reassignment({key: view.proposed.get(key, now.partitions[key].target) for key in leaving}, {})
        begin_moves(cluster, now, wanted, pace.throttle)
        output.note(f"{plural(len(leaving), 'replica')} leave broker {broker}.")
        if not pace.wait:
            output.note(f"Not yet: run `penstock brokers decommission {broker}` again to see when it may stop.")
            _tell_drained(broker, len(leaving), as_json)
            return
        after, overview = wait_for_moves(cluster, wanted)
        end_throttles(cluster, after, find_throttled(now, wanted, pace.throttle))
        raise_unmoved(overview)
    else:
        raise CliError(
            f"broker {broker} gets new replicas all the time", "Stop whoever makes topics, then run this again."
        )
    if broker in now.brokers:
        output.note(f"Broker {broker} has no replicas any more. It may stop, before new topics give it some.")
        if broker == now.controller:
            output.note("It is the controller: when it stops, another broker takes over.")
        output.note(f"Then: penstock brokers unregister {broker}")
    elif broker in now.away:
        unregister_broker(cluster, now, broker)
        output.note(f"Broker {broker} has no replicas any more, and is not registered any more.")
    else:
        output.note(f"Broker {broker} has no replicas any more.")
    _tell_drained(broker, 0, as_json)


def _held(now: ClusterNow, broker: int) -> list[TopicPartition]:
    """All that the broker has, also what is on its way."""
    return sorted(key for key, partition in now.partitions.items() if broker in partition.replicas)


def _plan_drain(cluster: ClusterClient, now: ClusterNow, broker: int) -> PlanView:
    if broker not in now.brokers and broker not in now.away and not _held(now, broker):
        raise CliError(
            f"there is no broker {broker}, and no partition has a replica on it",
            f"There are {', '.join(map(str, now.brokers))}.",
        )
    missing = [node for node in now.missing_brokers if node != broker]
    if missing:
        raise CliError(f"broker {missing[0]} has replicas and is not there", "Start it, or decommission it first.")
    current = {key: partition.target for key, partition in now.partitions.items()}
    racks = {node: each.rack for node, each in now.brokers.items() if node != broker}
    _check_room(current, broker, len(racks))
    proposed = changed_only(current, plan_spread(current, Wish(racks, is_balanced=False)))
    sizes = sizes_of(read_files(cluster, now.brokers.values(), proposed)) if proposed else {}
    before = {key: current[key] for key in proposed}
    return PlanView(before, proposed, bytes_to_move(now, proposed, sizes))


def _check_room(current: Assignment, broker: int, left: int) -> None:
    tight = {
        key.topic: len(replicas)
        for key, replicas in sorted(current.items())
        if broker in replicas and len(replicas) > left
    }
    if tight:
        names = ", ".join(f"{topic} ({count})" for topic, count in list(tight.items())[:5])
        more = f" and {len(tight) - 5} more" if len(tight) > 5 else ""
        raise CliError(
            f"without broker {broker} there are {plural(left, 'broker')}, and topics have more replicas: {names}{more}",
            f"Add a broker first, or lower the factor: penstock reassign plan --replication-factor {max(left, 1)}",
        )


def _show_drain(now: ClusterNow, broker: int, view: PlanView, as_json: bool) -> None:
    if as_json:
        output.print_json({"broker": broker, "replicas": len(_held(now, broker)), **plan_document(view)})
        return
    output.print_fields(plan_fields(view))
    output.say("")
    current = {key: partition.target for key, partition in now.partitions.items()}
    output.print_table(balance_table(current, {**current, **view.proposed}, now.brokers))
    output.note("Nothing was changed.")


def _tell_drained(broker: int, replicas: int, as_json: bool) -> None:
    if as_json:
        output.print_json({"broker": broker, "replicas": replicas, "may_stop": replicas == 0})


# ---------------------------------------------------------------------------------------------------- unregister


@app.command()
@on_cluster
def unregister(cluster: ClusterClient, broker: BrokerId, as_json: AsJson = False) -> None:
    """Forget a broker that is gone for good, so that no new topic gets a replica there.

    The broker must have stopped, and must have no replicas: `decommission` moves them. If the broker comes back, it
    registers anew.
    """
    now = read_cluster(cluster)
    if broker in now.brokers:
        raise CliError(f"broker {broker} is running, and would register again at once", "Stop the broker first.")
    held = _held(now, broker)
    if held:
        raise CliError(
            f"{plural(len(held), 'partition')} have a replica on broker {broker}: {held[0]} for one",
            f"Move them first: penstock brokers decommission {broker}",
        )
    unregister_broker(cluster, now, broker)
    output.note(f"Broker {broker} is not registered any more.")
    if as_json:
        output.print_json({"broker": broker, "unregistered": True})


# ---------------------------------------------------------------------------------------------------- demote


@app.command()
@on_cluster
def demote(
    cluster: ClusterClient,
    broker: BrokerId,
    undo: Annotated[bool, typer.Option("--undo", help="Bring back what the file has, leaders included.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="How it was before.  [default: demoted-ID.json]")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let other brokers lead what a broker leads, for maintenance. No record moves.

    The broker becomes the last replica of its partitions, so that nothing makes it a leader while others can be. How it
    was before goes to a file, which --undo reads. New topics may still begin there.
    """
    memory = file or Path(f"demoted-{broker}.json")
    now = read_cluster(cluster)
    if broker not in now.brokers:
        raise CliError(f"there is no broker {broker}", f"There are {', '.join(map(str, now.brokers))}.")
    if undo:
        _undo(cluster, now, broker, memory, dry_run=dry_run, as_json=as_json)
        return
    demotion = plan_demotion(now, broker)
    if not dry_run:
        if demotion.wanted:
            _remember(memory, demotion.before)
        raise_failures(start_moves(cluster, demotion.wanted).values())
        _elect(cluster, demotion.led)
    moved = Moved(broker, "last", len(demotion.wanted), "others lead in its place", len(demotion.led))
    _tell_moved(moved, demotion.alone, dry_run=dry_run, as_json=as_json)
    if demotion.alone:
        output.note(
            f"{plural(len(demotion.alone), 'partition')} have no replica elsewhere and stay: {demotion.alone[0]}, ..."
        )
    if not dry_run and memory.exists():
        output.note(f"Afterwards: penstock brokers demote {broker} --undo --file {memory}")


class Moved(NamedTuple):
    """What `demote` and `demote --undo` tell in the same words, and count in the same way."""

    broker: int
    place: str
    reordered: int
    who_leads: str
    leaders_moved: int


def _tell_moved(moved: Moved, alone: Sequence[TopicPartition], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        counts = {"broker": moved.broker, "reordered": moved.reordered, "leaders_moved": moved.leaders_moved}
        output.print_json({**counts, "alone": [str(key) for key in alone]})
    output.note(
        f"{'Would put' if dry_run else 'Put'} broker {moved.broker} {moved.place} among the replicas of "
        f"{plural(moved.reordered, 'partition')}; {moved.who_leads} {plural(moved.leaders_moved, 'partition')}."
    )


def _remember(memory: Path, before: Assignment) -> None:
    """What an interrupted run wrote is how it was; what this run would write may be half demoted."""
    known: dict[TopicPartition, Replicas] = {}
    if memory.exists():
        known = parse_reassignment(read_text(str(memory))).replicas
    memory.write_text(format_reassignment({**before, **known}) + "\n", encoding="utf-8")


def _undo(cluster: ClusterClient, now: ClusterNow, broker: int, memory: Path, *, dry_run: bool, as_json: bool) -> None:
    if not memory.exists():
        raise CliError(
            f"there is no file {memory}", "Name it with --file. Without it, `penstock reassign plan` evens leaders out."
        )
    before = parse_reassignment(read_text(str(memory))).replicas
    # Replicas that somebody has moved meanwhile are where they should be.
    wanted = {
        key: replicas
        for key, replicas in before.items()
        if key in now.partitions and set(replicas) == set(now.partitions[key].target)
    }
    led = tuple(key for key, replicas in wanted.items() if now.partitions[key].leader != replicas[0])
    if not dry_run:
        raise_failures(start_moves(cluster, wanted).values())
        _elect(cluster, led)
        memory.unlink()
    own = sum(wanted[key][0] == broker for key in led)
    moved = Moved(broker, "where it was", len(wanted), "it leads again", own)
    _tell_moved(moved, (), dry_run=dry_run, as_json=as_json)


def _elect(cluster: ClusterClient, keys: tuple[TopicPartition, ...]) -> None:
    if keys:
        outcomes = elect_leaders(cluster, keys)
        failures = (error for error in outcomes.values() if error is not None)
        raise_failures(error for error in failures if error.name != "ELECTION_NOT_NEEDED")
