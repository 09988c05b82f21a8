"""What `penstock reassign` and `penstock brokers` share: begin moves, wait for them, and take the throttles away.

Nothing is remembered here. The cluster knows which moves are under way, and the settings which throttles are set. So a
command that was killed is run again, or `penstock reassign status` goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import Cluster, raise_failures
from penstock.cli.access.cluster_now import CONTROLLER_PATIENCE_S, read_cluster, read_files, sizes_of
from penstock.cli.access.moves import move_directories, start_moves
from penstock.cli.access.throttles import (
    SetThrottles,
    find_throttles,
    remove_throttles,
    set_directory_throttle,
    set_throttles,
)
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cli.plans.assignments import ClusterNow, Reassignment, ReplicaPlace
from penstock.cli.plans.progress import (
    Overview,
    Sample,
    directory_moves_under_way,
    misplaced_replicas,
    seconds_left,
    survey,
)
from penstock.cli.plans.throttles import (
    ALL_REPLICAS,
    DEFAULT_RATE,
    find_moves,
    moving_brokers,
    parse_rate,
    throttled_replicas,
)
from penstock.cli.progress import Advance, is_watched, progress
from penstock.cli.text import format_size, plural
from penstock.cli.views.moves import summary
from penstock.protocol.errors import ErrorCode

# Small partitions are there in an instant; large ones need no closer look than this.
_FIRST_POLL_S, _LONGEST_POLL_S = 0.1, 2.0
# Between the two looks that tell how fast replicas are copied.
_SAMPLE_S = 1.0
# Where no bar is shown, somebody may read a log.
_TELL_EVERY_S = 30.0
# Brokers learn of the end of a move a moment after the controller.
_SETTLE_S = 10.0
_GO_ON_HINT = "The moves go on. `penstock reassign status` shows them, and ends their throttles."


@dataclass(frozen=True, slots=True)
class Pace:
    throttle: Annotated[
        str,
        typer.Option("--throttle", metavar="BYTES|none", help="Bytes a second that a broker sends, and receives."),
    ] = str(DEFAULT_RATE)
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all is done.")] = True


def read_text(path: str) -> str:
    """A file, or what comes in by `-`."""
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file") from None


# ---------------------------------------------------------------------------------------------------- beginning


def begin_moves(cluster: Cluster, now: ClusterNow, wanted: Reassignment, throttle: str) -> int:
    """The number of partitions that were asked to move: what is so already, or under way, is not asked for again."""
    rate = parse_rate(throttle)
    pending = {key: replicas for key, replicas in wanted.replicas.items() if now.partitions[key].target != replicas}
    moves = find_moves(now.partitions, pending)
    if rate is not None and moves:
        brokers = [now.brokers[node] for node in moving_brokers(moves) if node in now.brokers]
        _tell_missed(set_throttles(cluster, brokers, throttled_replicas(moves), rate), "is not throttled")
        output.note(f"Throttled to {format_size(rate)}/s for each of {plural(len(brokers), 'broker')}.")
    if wanted.directories:
        _begin_directory_moves(cluster, now, wanted.directories, rate)
    failures = start_moves(cluster, pending)
    if failures:
        output.note(f"{plural(len(pending) - len(failures), 'partition')} of {len(pending)} began to move.")
        raise_failures(failures.values())
    return len(pending)


def _begin_directory_moves(
    cluster: Cluster, now: ClusterNow, wanted: Mapping[ReplicaPlace, str], rate: int | None
) -> None:
    """Before the replicas come: a broker that has none yet remembers the directory, and makes the replica there."""
    _check_brokers(now, {place.broker for place in wanted})
    files = read_files(cluster, now.brokers.values(), {place.key for place in wanted})
    misplaced = misplaced_replicas(wanted, files)
    if rate is not None and misplaced:
        nodes = sorted({place.broker for place in misplaced if place in files})
        _tell_missed(set_directory_throttle(cluster, [now.brokers[node] for node in nodes], rate), "is not throttled")
    _move_directories(cluster, now, misplaced)


def _move_directories(cluster: Cluster, now: ClusterNow, wanted: Mapping[ReplicaPlace, str]) -> None:
    failures = move_directories(cluster, now.brokers, wanted)
    not_there_yet = ErrorCode.REPLICA_NOT_AVAILABLE.name
    raise_failures(failure for failure in failures.values() if failure.name != not_there_yet)


def check_wanted(now: ClusterNow, wanted: Reassignment) -> None:
    """CliError where the file names what is not there."""
    for key, replicas in wanted.replicas.items():
        if key not in now.partitions:
            raise CliError(f"there is no partition {key}", f"See: penstock topics describe {key.topic}")
        _check_brokers(now, set(replicas) - set(now.partitions[key].replicas))


def _check_brokers(now: ClusterNow, nodes: Iterable[int]) -> None:
    for node in sorted(nodes):
        if node not in now.brokers:
            raise CliError(f"there is no broker {node}", f"There are {', '.join(map(str, now.brokers))}.")


def _tell_missed(nodes: list[int], what: str) -> None:
    for node in nodes:
        output.note(f"Broker {node} does not answer and {what}.")


# ---------------------------------------------------------------------------------------------------- waiting


def look(cluster: Cluster, wanted: Reassignment | None) -> tuple[ClusterNow, Overview]:
    now = read_cluster(cluster)
    keys = set(now.moving if wanted is None else wanted.replicas) & now.moving.keys()
    sizes = sizes_of(read_files(cluster, now.brokers.values(), keys)) if keys else {}
    return now, survey(now, sizes, None if wanted is None else wanted.replicas)


def look_twice(cluster: Cluster, wanted: Reassignment | None) -> tuple[ClusterNow, Overview, float | None]:
    """With the time left, by what was copied in a second."""
    now, overview = look(cluster, wanted)
    if not overview.under_way:
        return now, overview, 0.0
    first = Sample(time.monotonic(), overview.bytes_left)
    time.sleep(_SAMPLE_S)
    now, overview = look(cluster, wanted)
    return now, overview, seconds_left(first, Sample(time.monotonic(), overview.bytes_left))


def wait_for_moves(cluster: Cluster, wanted: Reassignment | None) -> tuple[ClusterNow, Overview]:
    """Returns when nothing of it is under way. CliError when something is not where it should be even so."""
    try:
        now, overview = _patiently(cluster, wanted)
        with _told(overview) as tell:
            settled_at, pause_s = time.monotonic() + _SETTLE_S, _FIRST_POLL_S
            while True:
                if overview.under_way or _directories_move(cluster, now, wanted):
                    settled_at = time.monotonic() + _SETTLE_S
                elif not overview.failed or time.monotonic() >= settled_at:
                    break
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_POLL_S)
                now, overview = _patiently(cluster, wanted)
                tell(overview)
    except KeyboardInterrupt:
        output.note(_GO_ON_HINT)
        raise
    return now, overview


def _patiently(cluster: Cluster, wanted: Reassignment | None) -> tuple[ClusterNow, Overview]:
    """The broker that is asked may be the one that somebody restarts."""
    deadline = time.monotonic() + CONTROLLER_PATIENCE_S
    while True:
        try:
            return look(cluster, wanted)
        except CliError as error:
            if error.exit_code is not ExitCode.UNREACHABLE or time.monotonic() >= deadline:
                error.hint = error.hint or _GO_ON_HINT
                raise
        time.sleep(_FIRST_POLL_S)


def _directories_move(cluster: Cluster, now: ClusterNow, wanted: Reassignment | None) -> bool:
    """Whether replicas are still on their way to the directories of the file. What has not begun is begun."""
    if wanted is None or not wanted.directories:
        return False
    files = read_files(cluster, now.brokers.values(), {place.key for place in wanted.directories})
    misplaced = misplaced_replicas(wanted.directories, files)
    _move_directories(cluster, now, misplaced)
    return bool(misplaced or directory_moves_under_way(wanted.directories, files))


class _Teller:
    """A bar for a person, a line now and then for a log."""

    def __init__(self, overview: Overview, advance: Advance) -> None:
        self._left = overview.bytes_left
        self._first = Sample(time.monotonic(), overview.bytes_left)
        self._told_at = time.monotonic()
        self._advance = advance

    def __call__(self, overview: Overview) -> None:
        now = time.monotonic()
        self._advance(self._left - overview.bytes_left)
        self._left = overview.bytes_left
        if not is_watched() and now - self._told_at >= _TELL_EVERY_S:
            self._told_at = now
            output.note(summary(overview, seconds_left(self._first, Sample(now, overview.bytes_left))))


@contextlib.contextmanager
def _told(overview: Overview) -> Iterator[_Teller]:
    total = overview.bytes_left or None
    with progress(f"Moving {plural(overview.under_way, 'partition')}", total, in_bytes=True) as advance:
        yield _Teller(overview, advance)


def raise_unmoved(overview: Overview) -> None:
    if overview.failed:
        first = overview.failed[0]
        more = f", and {len(overview.failed) - 1} more" if len(overview.failed) > 1 else ""
        raise CliError(
            f"{first.key} does not move and is not as in the file ({first.state.value}){more}",
            "Somebody cancelled the move, or began another one. Apply the file again, or make a new plan.",
        )


# ---------------------------------------------------------------------------------------------------- throttles


def end_throttles(cluster: Cluster, now: ClusterNow, topics: Iterable[str] | None) -> None:
    """Takes away what slows moves down, of these topics or of all, and says so. Not while anything moves.

    Without topics nobody says which throttles belong to moves. One for all replicas of a topic is somebody's own, and
    then so may be the rates of the brokers.
    """
    if now.moving:
        output.note(f"{plural(len(now.moving), 'partition')} still move: the throttles stay.")
        return
    chosen = {key.topic for key in now.partitions} if topics is None else set(topics)
    found = find_throttles(cluster, now.brokers.values(), sorted(chosen))
    if topics is None:
        own = {topic for topic, values in found.topics.items() if ALL_REPLICAS in values.values()}
        if own:
            output.note(f"The throttles of {', '.join(sorted(own))} name all replicas: they stay, and so do the rates.")
            others = {topic: values for topic, values in found.topics.items() if topic not in own}
            found = SetThrottles(others, {})
    if not found:
        return
    _tell_missed(remove_throttles(cluster, now.brokers, found), "keeps its throttle: run this again")
    places = [*(f"broker {node}" for node in found.brokers), *(f"topic {topic}" for topic in found.topics)]
    shown = ", ".join(places[:10]) + (f" and {len(places) - 10} more" if len(places) > 10 else "")
    output.note(f"Removed the throttles of {shown}.")
