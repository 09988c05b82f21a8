"""A rolling restart: one broker after the other, the controller last, and no step that clients would notice.

Rules:
- Before a broker stops: a controller is there, every broker answers, every partition has a leader and all its replicas
  in sync, and without this broker each partition still has a leader and its min.insync.replicas. Partitions that cannot
  have that (one replica; a minimum as large as the number of replicas) are refused, unless the caller accepts that
  they stand still for as long as the restart takes.
- After a broker is back: all that again, and it leads the partitions that it should lead. The controller would give
  them back later; a request makes it do so at once, otherwise the last broker to be restarted would lead next to
  nothing.
- A connection that was opened before the restart proves it: the connection ends with the old process.
- A condition that does not come in time ends the restart with the reason. The brokers that were not reached run as
  before.

`Rolling` only asks, waits and reports; the caller knows how to stop and start a broker.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from penstock.admin.blocking_admin import Admin
from penstock.admin.look import ANSWER_TIMEOUT_S
from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.partitions import PartitionState
from penstock.client.versioned_client import VersionedClient
from penstock.health.condition import Condition, judge
from penstock.health.measurements import CAREFUL_LOOK, LOOK, Connect
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_POLL_S = 0.2
# A wait is reported when it is longer than a broker takes to come back, and again when its reason changes.
_TELL_AFTER_S = 5.0
_NAMED = 3
# Brokers close a connection without traffic after ten minutes (connections.max.idle.ms).
_SIGN_OF_LIFE_S = 10.0
_SIGN_OF_LIFE = ApiVersionsRequest(client_software_name="penstock", client_software_version="1")


class RollingError(Exception):
    """The restart has stopped. `left` are the brokers that are not done; it stopped at the first of them."""

    def __init__(self, message: str, left: Sequence[int]) -> None:
        super().__init__(message)
        self.message = message
        self.left = tuple(left)


class NotRestartedError(Exception):
    """`restart` raises this where it could not stop or start a broker."""


class Tell(Protocol):
    def __call__(self, node_id: int, what: str) -> None: ...


class Patience(NamedTuple):
    """How long to wait: until a broker may stop, until it has ended, and until all is well again."""

    before_s: float = 60.0
    restart_s: float = 120.0
    after_s: float = 600.0


def plan_order(observed: ClusterState, only: Sequence[int] = (), first: int | None = None) -> list[int]:
    """By id, the controller last, so that it moves once; from `first` on. Raises ValueError."""
    for node_id in (*only, *(() if first is None else (first,))):
        if node_id not in observed.brokers:
            raise ValueError(f"there is no broker {node_id}")
    chosen = [node_id for node_id in sorted(observed.brokers) if not only or node_id in only]
    order = sorted(chosen, key=lambda node_id: node_id == observed.controller_id)
    if first is None:
        return order
    if first not in order:
        raise ValueError(f"broker {first} is none of those that are to be restarted")
    return order[order.index(first) :]


def check_known(observed: ClusterState, node_id: int) -> None:
    """Raises ValueError for a broker that is not here and has no replica: the cluster lacks nothing without it."""
    if node_id not in observed.brokers and not any(node_id in each.replicas for each in observed.partitions):
        raise ValueError(f"there is no broker {node_id}")


def find_interrupted(observed: ClusterState, node_id: int) -> list[PartitionState]:
    """Partitions without a leader, or below their minimum for acks=all, while this broker is away and all others
    here.
    """
    interrupted = []
    for each in observed.partitions:
        if node_id in each.replicas:
            minimum = observed.minimum(each)
            # A replica that a move adds counts once it is in sync.
            remaining = len({*each.isr, *(node for node in each.replicas if node not in each.adding)} - {node_id})
            if remaining < max(1, 1 if minimum is None else minimum):
                interrupted.append(each)
    return interrupted


def why_not_well(condition: Condition) -> str:
    """The reason why the cluster cannot lose one broker more. Empty: it can."""
    observed = condition.observed
    silent = [broker for broker in observed.brokers.values() if broker.silence]
    if silent:
        return f"broker {silent[0].node_id} does not answer: {silent[0].silence}"
    if observed.controller_id is None:
        return "no broker is the controller"
    if observed.controller_silence:
        return f"broker {observed.controller_id} does not answer as the controller: {observed.controller_silence}"
    for partitions, what in (
        (condition.offline, "without a leader"),
        (condition.under_replicated, "without all their replicas in sync"),
    ):
        if partitions:
            return f"{_name(partitions)} {what}"
    return ""


def why_not_back(condition: Condition, node_id: int, expected: frozenset[int]) -> str:
    missing = sorted(expected - condition.observed.brokers.keys())
    if missing:
        return f"broker {missing[0]} is not registered"
    problem = why_not_well(condition)
    if problem:
        return problem
    waiting = [each for each in condition.misled if each.preferred_leader == node_id]
    return f"{_name(waiting)} not led by broker {node_id}, which should lead them" if waiting else ""


def _name(partitions: Sequence[PartitionState]) -> str:
    named = ", ".join(map(str, partitions[:_NAMED])) + (", ..." if len(partitions) > _NAMED else "")
    return f"{len(partitions)} partition{'' if len(partitions) == 1 else 's'} ({named})"


class Rolling:
    """`connect(address, timeout_s)` opens a connection to a broker, for Rolling alone. `restart(node_id)` stops the
    broker and starts it again, or has that done; it may return before either is over. Where it fails it raises
    NotRestartedError. `is_careless`: partitions may stand still meanwhile.
    """

    def __init__(
        self,
        admin: Admin,
        connect: Connect,
        restart: Callable[[int], None],
        tell: Tell,
        patience: Patience | None = None,
        *,
        is_careless: bool = False,
    ) -> None:
        self._admin = admin
        self._connect = connect
        self._restart = restart
        self._tell = tell
        self._patience = patience or Patience()
        self._is_careless = is_careless

    def run(self, order: Sequence[int]) -> None:
        """Raises RollingError, and OSError or ApiError where no broker answers at the beginning."""
        expected = frozenset(self._admin.read_wish(LOOK).brokers)
        for place, node_id in enumerate(order):
            try:
                self._restart_one(node_id, expected)
            except (_StoppedError, NotRestartedError, OSError, ApiError) as stopped:
                raise RollingError(str(stopped), order[place:]) from None

    def wait(self, node_id: int) -> None:
        """Until the broker is here and all is well: the step between two restarts that the operator makes."""
        expected = frozenset((*self._admin.read_wish(LOOK).brokers, node_id))
        try:
            self._wait_until_back(node_id, expected)
        except _StoppedError as stopped:
            raise RollingError(str(stopped), (node_id,)) from None

    def check(self, node_id: int) -> None:
        """Until the broker may be stopped. Raises RollingError where it may not."""
        try:
            self._wait_until_safe(node_id)
        except _StoppedError as stopped:
            raise RollingError(str(stopped), (node_id,)) from None

    def _restart_one(self, node_id: int, expected: frozenset[int]) -> None:
        observed = self._wait_until_safe(node_id)
        broker = observed.brokers[node_id]
        with self._connect((broker.host, broker.port), ANSWER_TIMEOUT_S) as kept:
            self._tell(node_id, "restarting")
            self._restart(node_id)
            self._wait_until_ended(kept, node_id)
        self._tell(node_id, "waiting until it is back and in sync")
        self._wait_until_back(node_id, expected)
        self._tell(node_id, "done")

    def _wait_until_safe(self, node_id: int) -> ClusterState:
        def look() -> tuple[str, ClusterState | None]:
            observed = self._admin.read_wish(CAREFUL_LOOK)
            if node_id not in observed.brokers:
                return f"broker {node_id} is not registered", None
            # An unread part may hold the reason against the restart.
            return next(map(str, observed.unread_configs), "") or why_not_well(judge(observed)), observed

        observed = self._until(look, node_id, self._patience.before_s, "it is not safe to stop a broker")
        interrupted = [] if self._is_careless else find_interrupted(observed, node_id)
        if interrupted:
            raise _StoppedError(
                f"while broker {node_id} is away, {_name(interrupted)} would stand still: they have no other replica, "
                "or min.insync.replicas needs all of them"
            )
        return observed

    def _wait_until_ended(self, kept: VersionedClient, node_id: int) -> None:
        """No answer is no end: a broker that stands still gets the request again, over another connection."""
        deadline = time.monotonic() + self._patience.restart_s
        with contextlib.ExitStack() as opened:
            while True:
                try:
                    if not kept.is_open:
                        kept = opened.enter_context(self._connect(kept.address, ANSWER_TIMEOUT_S))
                    kept.request(_SIGN_OF_LIFE, ApiVersionsResponse, timeout_s=_SIGN_OF_LIFE_S)
                except TimeoutError:
                    pass
                except OSError:
                    return
                if time.monotonic() >= deadline:
                    raise _StoppedError(f"broker {node_id} was to be restarted, and its process goes on unchanged")
                time.sleep(_POLL_S)

    def _wait_until_back(self, node_id: int, expected: frozenset[int]) -> None:
        def look() -> tuple[str, ClusterState | None]:
            observed = self._admin.read_wish(LOOK)
            condition = judge(observed)
            problem = why_not_back(condition, node_id, expected)
            mine = [each for each in condition.misled if each.preferred_leader == node_id]
            if mine and not why_not_well(condition):
                self._elect(mine)
            return problem, observed

        self._until(look, node_id, self._patience.after_s, "not all is well again")

    def _elect(self, partitions: Sequence[PartitionState]) -> None:
        """A refusal is no error here: the next look shows what is left."""
        with contextlib.suppress(OSError, ApiError):
            self._admin.elect_leaders([each.key for each in partitions])

    def _until(
        self, look: Callable[[], tuple[str, ClusterState | None]], node_id: int, patience_s: float, what: str
    ) -> ClusterState:
        """`look` returns a problem, or none and its result. The bootstrap server may be the one that is away."""
        deadline, told, tell_at = time.monotonic() + patience_s, "", time.monotonic() + _TELL_AFTER_S
        while True:
            try:
                problem, observed = look()
            except (OSError, ApiError) as error:
                problem, observed = str(error), None
            if not problem and observed is not None:
                return observed
            if time.monotonic() >= deadline:
                raise _StoppedError(f"{what} after {patience_s:g} s: {problem}")
            if problem != told and time.monotonic() >= tell_at:
                told, tell_at = problem, time.monotonic() + _TELL_AFTER_S
                self._tell(node_id, f"waiting: {problem}")
            time.sleep(_POLL_S)


class _StoppedError(Exception):
    """The condition did not come in time."""
