"""A machine: a disk, a way to the metadata store, and one broker after the other."""

from __future__ import annotations

import asyncio
import enum
import errno
import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.cluster_links import Wires
from penstock.broker.session import Reply, Session, UnanswerableError
from penstock.broker.upkeep.compaction_pacing import Stopwatch
from penstock.cluster.store.interface import Store, StoreError
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import BrokerMetrics
from penstock.log.directories.log_directories import LogDirectoryError
from penstock.log.storage.files import FileSlice
from penstock.protocol.errors import ErrorCode
from penstock.server.assembly import Surroundings
from penstock.server.broker_server import BrokerServer
from penstock.server.net.listener import ConnectionLimits, Handle, TcpListener
from penstock.testing.disks.memory import DiskFault, MemoryFiles
from proof.simulation.loop_guard import LoopGuard
from proof.simulation.notebook import Notebook
from proof.simulation.plan import FaultKind, Mode
from proof.simulation.store_link import OwnStore, ProcessGone, StoreLink
from proof.simulation.virtual_loop import VirtualLoop, let_go
from proof.simulation.world import BROKER, World

DATA = "/data"
_PORT = 9092
_NO_LIMITS = ConnectionLimits(1 << 30, 0)
_RESTART_MS = 200.0
# Small and frequent everything, so that few steps meet rolls, checkpoints, cleanings and time-outs.
CONFIG = {
    "log.dirs": DATA,
    "num.recovery.threads.per.data.dir": "1",  # a shutdown in threads would not be the same twice
    "listeners": "PLAINTEXT://broker:9092",
    "auto.create.topics.enable": "false",
    "penstock.cluster.id": "simulated",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.roll.ms": "1500",
    "penstock.segment.least.ms": "0",
    "log.cleaner.backoff.ms": "700",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "1500",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.migration.policy": "bidirectional",
}
_FLUSHED = {"log.flush.interval.messages": "1"}
_CONFIGS = {
    Mode.KILLED: BrokerConfig.parse(CONFIG),
    Mode.FLUSHED: BrokerConfig.parse(CONFIG | _FLUSHED),
    Mode.LOOSE: BrokerConfig.parse(CONFIG),
}
_FAULTS: dict[FaultKind, tuple[int, tuple[str, ...]]] = {
    FaultKind.FULL_DISK: (errno.ENOSPC, ("write", "write_file", "create", "make_directory")),
    FaultKind.FAILING_WRITES: (errno.EIO, ("write",)),
    FaultKind.FAILING_SYNC: (errno.EIO, ("sync",)),
    FaultKind.FAILING_READS: (errno.EIO, ("read",)),
}


_CHANGES = ("write", "write_file", "create", "make_directory", "rename", "unlink", "truncate", "sync", "remove_tree")


class End(enum.Enum):
    """Of a process, without its doing."""

    KILL = "killed"
    POWER_CUT = "power cut"
    LOST_DISK = "loses its disk"  # and gets another one, which is empty


# Given who finds the broker, and what it does about requests: what is done about them instead.
InFront = Callable[[Callable[[], Broker]], Callable[[Handle], Handle]]


@dataclass(frozen=True)
class Place:
    """What a machine finds where it stands."""

    config: BrokerConfig
    clock: Clock
    store: StoreLink
    name: str = "broker"
    owner: int = BROKER  # of its events, in the world's order
    told_of_end: Callable[[bool], None] = lambda _is_power_cut: None  # that the process has ended
    wires: Wires | None = None  # to other machines
    told_of_close: Callable[[], None] = lambda: None  # that the process closes its port
    in_front: InFront | None = None  # of what connections serve: a bug that is planted


class Port(TcpListener):
    """Nothing is bound: requests come by `Machine.handle` or by connections without a socket, until the port is closed.
    What comes by connections may meet something in front of the broker.
    """

    def __init__(
        self,
        place: Place,
        metrics: BrokerMetrics,
        in_front: Callable[[Handle], Handle],
        told_of_close: Callable[[], None],
    ) -> None:
        super().__init__("PLAINTEXT", _NO_LIMITS, metrics.sockets, place.clock)
        self.port = _PORT
        self._in_front = in_front
        self._told_of_close = told_of_close

    def handle_with(self, handle: Handle) -> None:
        super().handle_with(self._in_front(handle))

    async def close(self) -> None:
        self._told_of_close()
        await super().close()


def alone(world: World, mode: Mode) -> Place:
    return Place(_CONFIGS[mode], world, OwnStore())


class Machine:
    def __init__(self, world: World, place: Place, chance: random.Random, notebook: Notebook) -> None:
        self.world = world
        self.notebook = notebook
        self.files = _empty_disk(place.clock)
        self.server: BrokerServer | None = None  # while it serves
        self._place = place
        self._chance = chance
        self.loop: VirtualLoop | None = None  # while a process lives
        self._server: BrokerServer | None = None
        self._faulty_until: dict[FaultKind, float] = {}
        self._wants_to_run = False
        self._operations_left = 0  # until the process ends in the middle of one
        self._end: End | None = None
        self._remains: MemoryFiles | None = None
        self._then: Callable[[], None] | None = None
        self.loop_guard = LoopGuard(notebook.fail)
        self.port: Port | None = None  # of the last process
        # Those connected, who hear that the process has ended, and whether nothing is said, as when the power fails.
        self.told_of_ends: dict[object, Callable[[bool], None]] = {}

    # ---- lives

    def start(self) -> None:
        self._wants_to_run = True
        if self.loop is not None:
            return
        self.files.check = self._check
        chance = random.Random(self._chance.getrandbits(64))
        loop = self.loop = VirtualLoop(self.world, chance, self._place.owner)  # type: ignore[abstract]
        store = self._place.store.open(random.Random(self._chance.getrandbits(64)), self.is_gone)
        loop.enter(lambda: _forget(loop.create_task(self._serve(store), name="serve")))

    async def _serve(self, store: Store) -> None:
        place = self._place
        chance = random.Random(self._chance.getrandbits(64))
        surroundings = Surroundings(
            place.clock, self.files, chance, Stopwatch(_stepping(chance), lambda: 0.0), wires=place.wires
        )
        metrics = BrokerMetrics(lambda code: ErrorCode(code).name)

        def find_broker() -> Broker:
            assert self._server is not None
            return self._server.broker

        in_front = _unchanged if place.in_front is None else place.in_front(find_broker)
        listener = self.port = Port(place, metrics, in_front, self._close_port)
        try:
            server = await BrokerServer.compose(place.config, store, surroundings, metrics, [listener])
        except (LogDirectoryError, OSError, StoreError) as error:
            self.notebook.note(place.name, f"cannot start: {type(error).__name__}")
            self.world.after(_RESTART_MS, place.owner, self._start_again)
            return
        server.housekeeping.start()
        self.server = self._server = server
        self.notebook.note(place.name, "serves")

    def _start_again(self) -> None:
        if self.server is None and self._wants_to_run:
            self._end_life()
            self.start()

    def crash(self, end: End, operations: int, then: Callable[[], None]) -> None:
        """The process ends: now, or in the middle of the file operation that comes after so many others."""
        if self._end is not None and operations:
            return  # one end at a time
        self._operations_left, self._then = operations, then
        self._end = end
        if operations:
            self.files.check = self._check
        else:
            self._remains = self._find_remains(end)
            self._finish_crash()

    def _find_remains(self, end: End) -> MemoryFiles:
        self.notebook.note(self._place.name, end.value)
        if end is End.KILL:
            return self.files.after_kill()
        return self.files.after_power_cut(self._chance) if end is End.POWER_CUT else _empty_disk(self._place.clock)

    def is_gone(self) -> bool:
        return self._remains is not None

    def _finish_crash(self) -> None:
        remains, then = self._remains, self._then
        assert remains is not None
        assert then is not None
        self.notebook.crashes += 1
        self._wants_to_run = False
        is_power_cut = self._end is not End.KILL
        self._end_life()
        self.files = remains
        self._remains = self._end = self._then = None
        self._place.told_of_end(is_power_cut)
        then()

    def _end_life(self) -> None:
        if self._server is not None:
            self.notebook.cleanings += self._server.broker.metrics.cleaner.cleanings
        self.server = self._server = None
        loop, self.loop = self.loop, None
        if loop is not None:
            if self._remains is None:
                self._collect_failures(loop)
            self.files.check = None
            loop.die()
            self._place.store.abandon()
        for tell in list(self.told_of_ends.values()):
            tell(self._end not in (None, End.KILL))
        self.told_of_ends.clear()

    def stop(self, then: Callable[[], None]) -> None:
        """A clean shutdown, which takes as long as it takes."""
        loop, server = self.loop, self._server
        if loop is None or server is None or self.server is None or server.is_stopping:
            return
        self.notebook.note(self._place.name, "stops")
        self._wants_to_run = False

        async def stop() -> None:
            await server.stop()
            self.notebook.note(self._place.name, "stopped")
            self.world.after(0, self._place.owner, lambda: self._finish_stop(loop, then))

        loop.enter(lambda: _forget(loop.create_task(stop(), name="stop")))

    def _close_port(self) -> None:
        """What clients wait for is cancelled."""
        self.server = None
        for task in list(self.loop.tasks if self.loop is not None else ()):
            if task.get_name().startswith("request"):
                task.cancel()
        self._place.told_of_close()

    def _finish_stop(self, loop: VirtualLoop, then: Callable[[], None]) -> None:
        if self.loop is not loop or self.is_gone():
            return  # killed while it stopped
        if loop.tasks:
            # Their coroutines, and not their names: most are numbered through, differently in each process.
            left = sorted(getattr(task.get_coro(), "__qualname__", task.get_name()) for task in loop.tasks)
            self.notebook.fail(f"{len(left)} tasks are left after a clean stop: {left}")
        self.files.check = None
        files = self.files.after_kill()
        self._place.store.abandon()  # what it could not close, because the store was away
        self._end_life()
        self.files = files
        self._place.told_of_end(False)
        then()

    def _collect_failures(self, loop: VirtualLoop) -> None:
        for failure in loop.failures:
            self.notebook.fail(f"in the event loop: {failure}")
        loop.failures.clear()

    def enter(self, action: Callable[[], None]) -> None:
        """Does something in the broker's loop, if its process lives."""
        if self.loop is not None:
            self.loop.enter(action)

    @property
    def is_serving(self) -> bool:
        return self.server is not None

    @property
    def is_ending(self) -> bool:
        """Whether the process is to end in the middle of a file operation to come."""
        return self._end is not None

    @property
    def has_work(self) -> bool:
        loop = self.loop
        return loop is not None and (loop.has_work or self._remains is not None)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts a coroutine of the simulation in the broker's loop."""
        loop = self.loop
        assert loop is not None
        loop.enter(lambda: _forget(loop.create_task(work)))

    # ---- the disk

    def break_disk(self, kind: FaultKind, length_ms: float) -> None:
        self._faulty_until[kind] = self.world.time_ms + length_ms
        self.files.check = self._check

    def heal(self) -> None:
        self._faulty_until.clear()
        if self._remains is None:
            self._end = None
        self.files.check = self._check

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Whoever looks into the files from outside meets no fault, and is no fault of the broker's."""
        check, self.files.check = self.files.check, None
        try:
            yield
        finally:
            self.files.check = check

    def _check(self, name: str, path: str) -> None:
        if self.server is not None and self.loop is not None and not self.loop.is_in_thread:
            self.loop_guard.look(name, path)
        if self._end is not None and name in _CHANGES:
            self._operations_left -= 1
            if self._operations_left <= 0 and self._remains is None:
                self._remains = self._find_remains(self._end)
        if self._remains is not None:
            raise ProcessGone
        for kind, until_ms in self._faulty_until.items():
            code, names = _FAULTS[kind]
            if self.world.time_ms < until_ms and name in names:
                stored = self._chance.choice((0, 0, 7, 70)) if name == "write" else 0
                raise DiskFault(code, os.strerror(code), path, stored)

    # ---- requests

    def rest(self) -> None:
        if self.loop is not None:
            self.loop.rest()
            if self._remains is not None:
                self._finish_crash()

    def handle(
        self,
        session: Session,
        frame: bytes,
        answer: Callable[[Reply], None],
        refuse: Callable[[], None] = lambda: None,
    ) -> Callable[[], None] | None:
        """Returns what ends the wait, as the end of a connection does; None when nobody listens. `refuse` is for a
        request that is not answered: the broker ends the connection.
        """
        loop, server = self.loop, self.server
        if loop is None or server is None:
            return None
        tasks: list[asyncio.Task[None]] = []

        async def wait(reply: Awaitable[Reply]) -> None:
            try:
                done = await reply
            except UnanswerableError:
                refuse()
                return
            if self.loop is loop and self._remains is None:
                answer(done)

        def begin() -> None:
            if self.is_gone():
                return
            try:
                reply = server.dispatcher.handle(session, frame)
            except UnanswerableError:
                refuse()
                return
            except ProcessGone:
                return
            if self.is_gone():
                let_go(reply)
                return
            if reply is None or isinstance(reply, list):
                answer(reply)
            else:
                tasks.append(loop.create_task(wait(reply), name=f"request {self.notebook.requests}"))

        loop.enter(begin)
        return lambda: self._give_up(loop, tasks)

    def _give_up(self, loop: VirtualLoop, tasks: list[asyncio.Task[None]]) -> None:
        if self.loop is loop:
            loop.enter(lambda: _forget(loop.call_soon(_cancel, tasks)))  # after their first steps


def _empty_disk(clock: Clock) -> MemoryFiles:
    files = MemoryFiles(clock.now_ms)
    files.make_directories(DATA)
    files.sync_directory("/")
    return files


def _unchanged(handle: Handle) -> Handle:
    return handle


def _forget(_: object) -> None:
    """Does nothing with a task that is done: its end is noticed in another way."""


def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()


def joined(reply: Reply) -> bytes:
    """The bytes as the socket would get them. OSError or ValueError where a file does not give what it should."""
    return b"".join(
        chunk.read(0, len(chunk)) if isinstance(chunk, FileSlice) else bytes(chunk)  # type: ignore[arg-type]
        for chunk in reply or ()
    )


def _stepping(chance: random.Random) -> Callable[[], float]:
    """A clock for the cleaner: each look at it costs a little, and sometimes a whole slice."""
    seconds = 0.0

    def look() -> float:
        nonlocal seconds
        seconds += chance.choice((0.0, 0.0001, 0.003))
        return seconds

    return look
