"""What `penstock reassign` and `penstock brokers` share: begin moves, wait for them, and take the throttles away.

Nothing is remembered here. The cluster knows which moves are under way, and the settings which throttles are set. So a
command that was killed is run again, or `penstock reassign status` goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient, raise_failures
from penstock.cli.access.cluster_now import ask_patiently, read_cluster, read_files, sizes_of
from penstock.cli.access.moves import move_directories, start_moves
from penstock.cli.access.throttles import (
    SetThrottles,
    find_throttles,
    remove_throttles,
    set_directory_throttle,
    set_throttles,
)
from penstock.cli.errors import CliError, ExitCode
from penstock.cli.plans.assignments import ClusterNow, Reassignment, ReplicaPlace
from penstock.cli.plans.progress import (
    Overview,
    Sample,
    directory_moves_under_way,
    misplaced_replicas,
    seconds_left,
    sort_misplaced,
    survey,
)
from penstock.cli.plans.throttles import (
    DEFAULT_RATE,
    find_moves,
    may_keep_rates,
    moving_brokers,
    parse_rate,
    throttled_replicas,
)
from penstock.cli.progress import Advance, is_watched, progress
from penstock.cli.text import format_size, plural
from penstock.cli.views.moves import summary
from penstock.core.config.keys.throttles import ALL_REPLICAS, DIRECTORY_RATE
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
_LEFT_HINT = "Throttles may be left. `penstock reassign status` ends them when nothing moves."
_NOT_THERE_YET = ErrorCode.REPLICA_NOT_AVAILABLE.name


@dataclass(frozen=True, slots=True)
class Pace:
    throttle: Annotated[
        str,
        typer.Option("--throttle", metavar="BYTES|none", help="Bytes a second that a broker sends, and receives."),
    ] = str(DEFAULT_RATE)
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all is done.")] = True


# ---------------------------------------------------------------------------------------------------- beginning


def begin_moves(cluster: ClusterClient, now: ClusterNow, wanted: Reassignment, throttle: str) -> int:
    """The number of partitions that were asked to move: what is so already, or under way, is not asked for again."""
    rate = parse_rate(throttle)
    pending = {key: replicas for key, replicas in wanted.replicas.items() if now.partitions[key].target != replicas}
    moves = find_moves(now.partitions, pending)
    if rate is None:
        _lift_throttles(cluster, now, wanted)
    elif moves:
        brokers = [now.brokers[node] for node in moving_brokers(moves) if node in now.brokers]
        _tell_missed(set_throttles(cluster, brokers, throttled_replicas(moves), rate), "is not throttled")
        output.note(f"Throttled to {format_size(rate)}/s for each of {plural(len(brokers), 'broker')}.")
    try:
        if wanted.directories:
            _begin_directory_moves(cluster, now, wanted.directories, rate)
        failures = start_moves(cluster, pending)
        if failures:
            output.note(f"{plural(len(pending) - len(failures), 'partition')} of {len(pending)} began to move.")
            raise_failures(failures.values())
    except CliError as error:
        _give_up(cluster, None if rate is None else find_throttled(now, wanted, throttle), error)
        raise
    except KeyboardInterrupt:
        output.note(_GO_ON_HINT)
        raise
    return len(pending)


def find_throttled(now: ClusterNow, wanted: Reassignment, throttle: str) -> set[str]:
    """The topics whose throttles `begin_moves` sets, as `now` is before it: those of the moves, and those of moves that
    were under way already, which share the rates of the brokers. Whoever began ends them when nothing moves any more.
    """
    topics = {key.topic for key in wanted.replicas}
    return topics if parse_rate(throttle) is None else topics | {key.topic for key in now.moving}


def _give_up(cluster: ClusterClient, throttled: AbstractSet[str] | None, error: CliError) -> None:
    """After a beginning that failed. Where nothing began there is nothing to slow down; where something did, somebody
    has to look after it. The failure stays the one that is told."""
    hint = _GO_ON_HINT
    try:
        now = read_cluster(cluster)
        if not now.moving:
            hint = ""
            if throttled is not None:
                _remove(cluster, now, _throttles_to_end(cluster, now, throttled))
    except CliError:
        hint = _LEFT_HINT
    error.hint = "\n".join(filter(None, (error.hint, hint)))


def _begin_directory_moves(
    cluster: ClusterClient, now: ClusterNow, wanted: Mapping[ReplicaPlace, str], rate: int | None
) -> None:
    """Before the replicas come: a broker that has none yet remembers the directory, and makes the replica there."""
    _check_brokers(now, {place.broker for place in wanted})
    files = read_files(cluster, now.brokers.values(), {place.key for place in wanted})
    misplaced = misplaced_replicas(wanted, files)
    if rate is not None and misplaced:
        nodes = sorted({place.broker for place in misplaced if place in files})
        _tell_missed(set_directory_throttle(cluster, [now.brokers[node] for node in nodes], rate), "is not throttled")
    failures = move_directories(cluster, now.brokers, misplaced)
    raise_failures(failure for failure in failures.values() if failure.name != _NOT_THERE_YET)


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


def look(cluster: ClusterClient, wanted: Reassignment | None) -> tuple[ClusterNow, Overview]:
    now = read_cluster(cluster)
    keys = set(now.moving if wanted is None else wanted.replicas) & now.moving.keys()
    sizes = sizes_of(read_files(cluster, now.brokers.values(), keys)) if keys else {}
    return now, survey(now, sizes, None if wanted is None else wanted.replicas)


def look_twice(cluster: ClusterClient, wanted: Reassignment | None) -> tuple[ClusterNow, Overview, float | None]:
    """With the time left, by what was copied in a second."""
    now, overview = look(cluster, wanted)
    if not overview.under_way:
        return now, overview, 0.0
    first = Sample(time.monotonic(), overview.bytes_left)
    time.sleep(_SAMPLE_S)
    now, overview = look(cluster, wanted)
    return now, overview, seconds_left(first, Sample(time.monotonic(), overview.bytes_left))


def wait_for_moves(
    cluster: ClusterClient, wanted: Reassignment | None, *, may_begin: bool = True
) -> tuple[ClusterNow, Overview]:
    """Returns when nothing of it is under way. CliError when something is not where it should be even so. With
    `may_begin` moves between disks that have not begun are asked for.
    """
    try:
        directories = _DirectoryMoves({} if wanted is None else wanted.directories, may_begin)
        now, overview = ask_patiently(lambda: look(cluster, wanted))
        with _told(overview) as tell:
            settled_at, pause_s = time.monotonic() + _SETTLE_S, _FIRST_POLL_S
            while True:
                is_under_way = directories.look(cluster, now)
                if overview.under_way or is_under_way:
                    settled_at = time.monotonic() + _SETTLE_S
                elif not (overview.failed or directories.stranded) or time.monotonic() >= settled_at:
                    break
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_POLL_S)
                now, overview = ask_patiently(lambda: look(cluster, wanted))
                tell(overview)
    except CliError as error:
        error.hint = error.hint or _GO_ON_HINT
        raise
    except KeyboardInterrupt:
        output.note(_GO_ON_HINT)
        raise
    return now, overview._replace(stranded=directories.stranded)


def find_stranded(cluster: ClusterClient, now: ClusterNow, wanted: Reassignment) -> tuple[ReplicaPlace, ...]:
    """Replicas that are not in the directory of the file, and do not move there."""
    directories = _DirectoryMoves(wanted.directories, may_begin=False)
    directories.look(cluster, now)
    return directories.stranded


class _DirectoryMoves:
    """The moves of a file between the directories of a broker: what has not begun is begun, where that is allowed."""

    def __init__(self, wanted: Mapping[ReplicaPlace, str], may_begin: bool) -> None:
        self._wanted = wanted
        self._may_begin = may_begin
        self._begun: set[ReplicaPlace] = set() if may_begin else set(wanted)
        self.stranded: tuple[ReplicaPlace, ...] = ()

    def look(self, cluster: ClusterClient, now: ClusterNow) -> bool:
        """Whether replicas are still on their way, or wait for it."""
        if not self._wanted:
            return False
        files = read_files(cluster, now.brokers.values(), {place.key for place in self._wanted})
        under_way = directory_moves_under_way(self._wanted, files)
        to_ask, self.stranded = sort_misplaced(self._wanted, files, self._begun)
        if not self._may_begin:
            return bool(under_way)
        failures = move_directories(cluster, now.brokers, to_ask)
        # A replica that is not there yet comes, and a broker that does not answer comes back.
        raise_failures(
            failure
            for failure in failures.values()
            if failure.name != _NOT_THERE_YET and failure.exit_code is not ExitCode.UNREACHABLE
        )
        self._begun |= to_ask.keys() - failures.keys()
        self._begun |= set(under_way)
        return bool(to_ask or under_way)


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
    if overview.stranded:
        more = f", and {len(overview.stranded) - 1} more" if len(overview.stranded) > 1 else ""
        raise CliError(
            f"{overview.stranded[0]} does not move and is not in the directory of the file{more}",
            "The broker's log says why the move ended. Apply the file again when that is mended.",
        )


# ---------------------------------------------------------------------------------------------------- throttles


def end_throttles(
    cluster: ClusterClient,
    now: ClusterNow,
    topics: Iterable[str] | None,
    cancelled: AbstractSet[ReplicaPlace] = frozenset(),
) -> None:
    """Takes away what slows moves down, of these topics or of all, and says so. Not while anything moves.

    Without topics nobody says which throttles belong to moves. One for all replicas of a topic is somebody's own, and
    then so may be the rates of the brokers. Brokers may still tell of moves between directories that were `cancelled`.
    """
    if now.moving:
        output.note(f"{plural(len(now.moving), 'partition')} still move: the throttles stay.")
        return
    try:
        found = ask_patiently(lambda: _throttles_to_end(cluster, now, topics, cancelled))
        # Not looked for again: a try whose answer was lost has removed what says which brokers were throttled.
        ask_patiently(lambda: _remove(cluster, now, found))
    except CliError as error:
        error.hint = _LEFT_HINT
        raise
    except KeyboardInterrupt:
        output.note(_LEFT_HINT)
        raise


def _throttles_to_end(
    cluster: ClusterClient,
    now: ClusterNow,
    topics: Iterable[str] | None,
    cancelled: AbstractSet[ReplicaPlace] = frozenset(),
) -> SetThrottles:
    chosen = {key.topic for key in now.partitions} if topics is None else set(topics)
    found = find_throttles(cluster, now.brokers.values(), sorted(chosen))
    if topics is None:
        own = {topic for topic, values in found.topics.items() if ALL_REPLICAS in values.values()}
        if own:
            output.note(f"The throttles of {', '.join(sorted(own))} name all replicas: they stay, and so do the rates.")
            others = {topic: values for topic, values in found.topics.items() if topic not in own}
            found = SetThrottles(others, {})
    return _spare_disk_moves(cluster, now, found, cancelled)


def _lift_throttles(cluster: ClusterClient, now: ClusterNow, wanted: Reassignment) -> None:
    """Of a file's moves alone, also of those that are under way. A broker's rates are for all moves: they stay while
    other topics have some."""
    topics = {key.topic for key in wanted.replicas}
    found = find_throttles(cluster, now.brokers.values(), sorted(topics))
    if any(key.topic not in topics for key in now.moving):
        lifted = {DIRECTORY_RATE} if wanted.directories else set()
        rates = {node: {key: keys[key] for key in keys if key in lifted} for node, keys in found.brokers.items()}
        found = found._replace(brokers={node: keys for node, keys in rates.items() if keys})
    _remove(cluster, now, _spare_disk_moves(cluster, now, found, wanted.directories.keys()))


def _spare_disk_moves(
    cluster: ClusterClient, now: ClusterNow, found: SetThrottles, ours: AbstractSet[ReplicaPlace] = frozenset()
) -> SetThrottles:
    """Without the rate of brokers that move replicas of others between their directories: nobody lists such moves, so
    the brokers are asked."""
    if not any(DIRECTORY_RATE in keys for keys in found.brokers.values()):
        return found
    files = read_files(cluster, now.brokers.values())
    busy = {place.broker for place, each in files.items() if each.future_directory is not None and place not in ours}
    brokers: dict[int, dict[str, str]] = {}
    for node, keys in found.brokers.items():
        if node in busy and DIRECTORY_RATE in keys:
            output.note(f"Broker {node} moves replicas between its directories: the rate of that stays.")
        removed = {key: keys[key] for key in keys if node not in busy or key != DIRECTORY_RATE}
        if removed:
            brokers[node] = removed
    return found._replace(brokers=brokers)


def _remove(cluster: ClusterClient, now: ClusterNow, found: SetThrottles) -> None:
    missed = remove_throttles(cluster, now.brokers, found)
    for node in may_keep_rates({*now.away, *now.missing_brokers}, found.topics, found.brokers):
        output.note(f"Broker {node} is away and may keep a throttle: `penstock reassign status` ends it later.")
    silent = may_keep_rates(found.silent, found.topics, found.brokers)
    _tell_missed(sorted({*missed, *silent}), "may keep a throttle: `penstock reassign status` ends it later")
    if not found:
        return
    places = [*(f"broker {node}" for node in found.brokers), *(f"topic {topic}" for topic in found.topics)]
    shown = ", ".join(places[:10]) + (f" and {len(places) - 10} more" if len(places) > 10 else "")
    output.note(f"Removed the throttles of {shown}.")
