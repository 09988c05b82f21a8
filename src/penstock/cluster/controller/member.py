"""A broker's membership in its cluster: registered, and either the controller or a follower of the log.

Rules:
- The next action follows from the content of the store, not from events: an event only wakes `_step`, which looks. So
  an event that is lost with a connection, or comes twice, does no harm. After an event of the log alone the look reads
  the log alone: all other nodes that a look reads have watches of their own.
- The end of a session ends the registration and the controller's term. The broker registers again, with a new epoch.
  The process has gone on, so its logs hold the records of the epoch before: the registration names that epoch, as after
  a clean shutdown. Registrations report that the directories were empty at the start of the process until the broker is
  counted: from then on it may have records. Not before: a replaced disk must not pass for a full disk.
- A controller that misses brokers after a frozen store waits a moment for them (`company`).
- A newly elected controller catches up with the log, then writes the unwritten changes of the controller before, then
  decides about the registered brokers. Only then it serves changes.
- A node that another program has deleted or overwritten is written again (`node_repair`, `lost_log`): when its watch
  fires, and after every look that failed.
- A broker that is not the controller replays the deltas of the log in order. If they are not kept any more, it loads
  everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.cluster.controller.active_controller import ActiveController
from penstock.cluster.controller.balance import Balance
from penstock.cluster.controller.catching_up import catch_up, follow_log
from penstock.cluster.controller.company import Company
from penstock.cluster.controller.known_losses import KnownLosses
from penstock.cluster.controller.lost_log import mend_log
from penstock.cluster.controller.node_repair import WATCHED, mend_derived, mend_shared, raise_counter
from penstock.cluster.controller.registration import (
    Term,
    elect,
    is_registered,
    read_registered,
    register,
    show_controller,
    term_of,
)
from penstock.cluster.controller.upkeep import INSPECTION_S, Upkeep
from penstock.cluster.controller.writer import Writer
from penstock.cluster.decisions.brokers import are_counted, decide_registered
from penstock.cluster.decisions.decision import Decision
from penstock.cluster.image import BrokerRegistration, MetadataImage, TopicImage
from penstock.cluster.image_publisher import ImageSubscription, Publisher
from penstock.cluster.levels import SUPPORTED, LevelRange
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import SessionState, Store, StoreError, StoreErrorKind
from penstock.cluster.strangers.reports import Told
from penstock.core.clock import Clock
from penstock.core.metrics.cluster_counters import ControllerMetrics
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

# The pause between two looks at a store that refuses.
_RETRY_S = 0.5
# The pause of a broker that could not repair the log: long enough for the election of another broker.
_ABSTENTION_S = 1.2
# The time that a step may go on once the member is closed.
_PATIENCE_S = 5.0
_LOOKS = 5
# The number of remembered sessions. A node of an older session is long gone.
_SESSIONS_REMEMBERED = 10


class Rules(NamedTuple):
    """The values with which the member decides, writes and counts."""

    may_be_unclean: Callable[[TopicImage], bool]
    new_id: Callable[[], str]
    losses: KnownLosses
    metrics: ControllerMetrics
    levels: LevelRange = SUPPORTED
    # The id of the restore that made the metadata; empty without a restore.
    restoration_id: str = ""
    inspection_s: float = INSPECTION_S


class ClusterMember:
    def __init__(
        self, store: Store, publisher: Publisher, broker: BrokerRegistration, clock: Clock, rules: Rules
    ) -> None:
        """`broker` is the registration without its epoch."""
        self.active_controller: ActiveController | None = None
        self._entering: ActiveController | None = None  # until its first change is made; the same controller afterwards
        self.registration: BrokerRegistration | None = None
        self._registered_data = b""  # the content of its node
        self._chores: list[Balance | Upkeep] = []  # the periodic work of the controller's term
        self._company, self._told = Company(), Told()
        self._store = store
        self._publisher = publisher
        self._broker = broker
        self._clock = clock
        self._rules = rules
        self._session_id = store.session_id
        self._former_sessions: list[str] = []
        self._was_fenced = False  # in the present session, perhaps with a controller's node of this broker
        self._woken = asyncio.Event()
        self._is_whole_look = True  # whether the next look reads everything; otherwise it reads the log alone
        self._is_suspect = True  # nodes of ours may be missing or damaged
        self._abstains_until = 0.0  # this broker could not repair the log, and another broker may
        self._is_joined = False
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None
        self._complaint = ""
        # A delta changes the log's own node, too, so the names of the thousand deltas need no watch.
        paths = (znodes.LOG, znodes.CONTROLLER, znodes.broker_path(broker.node_id))
        self._ends = [store.watch(path, self._changed, children=False) for path in paths]
        self._ends += [store.watch(path, self._suspected, children=False) for path in WATCHED]
        self._ends += [store.watch(znodes.BROKER_IDS, self._changed), store.on_session(self._session_changed)]
        self._ends.append(publisher.subscribe(ImageSubscription(self._published, None, None, None)))

    # ---------------------------------------------------------------------------------------------- joining, leaving

    async def join(self, takeover_s: float) -> None:
        """Returns when the controller, perhaps this broker, counts the broker. Raises StoreError.

        `takeover_s` is the time for which the broker waits for the end of a session that holds its node: its former
        process may have been killed a moment ago.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + takeover_s
        is_told = False
        looks = 0
        # A standalone broker looks until it finds nothing new, and rests. In a busy cluster there is always news.
        while not self._is_counted() or (self._woken.is_set() and looks < _LOOKS):
            self._woken.clear()
            looks += 1
            try:
                await self._step()
            except (StoreError, ApiError) as error:
                is_taken = _is_taken(error) and loop.time() < deadline
                if not is_taken and not _is_passing(error, self._store):
                    raise
                if is_taken and not is_told:
                    logger.warning(
                        "waiting up to %.1f s for the end of the session of a former self: %s", takeover_s, error
                    )
                    is_told = True
                self._is_whole_look = True
                await self._wait(_RETRY_S)
                continue
            if not self._is_counted():
                await self._woken.wait()
        self._is_joined = True
        if self._woken.is_set():
            self._wake()

    async def close(self) -> None:
        self._is_stopping = True
        while self._ends:  # a second close finds none
            self._ends.pop()()
        task = self._task
        if task is not None:
            _, pending = await asyncio.wait({task}, timeout=_PATIENCE_S)
            if pending:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._resign("the broker stops")

    @property
    def broker_epoch(self) -> int:
        return -1 if self.registration is None else self.registration.epoch

    def _is_counted(self) -> bool:
        counted = self._publisher.image.brokers.get(self._broker.node_id)
        return self.registration is not None and counted is not None and counted.epoch == self.registration.epoch

    # ---------------------------------------------------------------------------------------------- events

    def _changed(self, path: str) -> None:
        self._is_whole_look |= path != znodes.LOG
        self._begin_look()

    def _suspected(self, _path: str) -> None:
        self._is_suspect = True
        self._wake()

    def _published(self, _old: MetadataImage, _new: MetadataImage) -> None:
        if self._is_counted():
            self._broker = self._broker._replace(is_empty=False)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.ENDED:
            self._end_session()
        self._wake()

    def _end_session(self) -> None:
        self._resign("its session has ended")
        if self.registration is not None:
            logger.warning("the session with the metadata store has ended; registering anew")
        self.registration = None
        self._is_suspect = True
        self._was_fenced = False
        self._former_sessions = [*self._former_sessions, self._session_id][-_SESSIONS_REMEMBERED:]

    def _fenced(self, active_controller: ActiveController) -> None:
        if active_controller is self._entering:
            self._was_fenced = True
            self._resign("another controller was elected, or the log was damaged")
            self._wake()

    def _resign(self, reason: str) -> None:
        if self._entering is not None:
            self._entering.close()
            self._entering = None
        while self._chores:
            self._chores.pop().stop()
        if self.active_controller is not None:
            self._tell("no longer the controller of epoch %d: %s", self.active_controller.term.epoch, reason)
            self.active_controller = None

    def _wake(self) -> None:
        self._is_whole_look = True
        self._begin_look()

    def _begin_look(self) -> None:
        self._woken.set()
        if self._is_joined and self._task is None and not self._is_stopping:
            self._task = asyncio.create_task(self._run(), name="metadata-member")

    async def _run(self) -> None:
        while self._woken.is_set() and not self._is_stopping:
            self._woken.clear()
            try:
                await self._step()
                self._complaint = ""
            except Exception as error:  # noqa: BLE001  # one failed look must not be the last; it is logged
                self._is_suspect = True
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    _complain(error)
                asyncio.get_running_loop().call_later(_RETRY_S, self._wake)
        self._task = None

    def _tell(self, message: str, *arguments: object) -> None:
        """News for operators of several brokers; at DEBUG on a standalone broker."""
        logger.log(logging.INFO if len(self._publisher.image.brokers) > 1 else logging.DEBUG, message, *arguments)

    async def _wait(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()

    async def _step(self) -> None:
        if self._store.session_state is not SessionState.CONNECTED:
            return  # the next state wakes the member
        is_whole, self._is_whole_look = self._is_whole_look, False
        if self.active_controller is not None and not await self.active_controller.has_its_log():
            self._resign("the log was overwritten")
        elif not is_whole:
            if self.active_controller is None:  # the controller knows its own changes
                await follow_log(self._store, self._publisher, self._rules.levels.highest)
            return
        is_suspect, self._is_suspect = self._is_suspect, False
        if is_suspect:
            await mend_shared(self._store, self._publisher.image, self._broker.node_id, self._rules.restoration_id)
        await self._register()
        await self._look_for_controller()
        active_controller = self.active_controller
        if active_controller is None:
            await follow_log(self._store, self._publisher, self._rules.levels.highest)
        else:
            await active_controller.finish()
            if self.active_controller is active_controller:  # the session may have ended meanwhile
                await self._count_brokers(active_controller)
            if is_suspect and active_controller.is_open:
                async with self._publisher.turn:
                    await mend_derived(self._store, active_controller.term.fence, self._publisher.image)

    async def _register(self) -> None:
        if self.registration is not None:
            if await is_registered(self._store, self._broker.node_id, self._registered_data):
                return
            logger.warning("the registration of this broker was taken away; registering anew")
            self.registration = None
        self._session_id = self._store.session_id
        await raise_counter(self._store, self._publisher.image)
        registered, data, term = await register(
            self._store, self._broker, self._former_sessions, self._clock.now_ms(), self._rules.restoration_id
        )
        if self._session_id != self._store.session_id:
            self._wake()  # the session ended meanwhile, and the registration with it
            return
        self.registration, self._registered_data = registered, data
        # If the next registration finds this registration still in the image, no other process had this id in between.
        self._broker = self._broker._replace(previous_epoch=registered.epoch)
        self._tell("registered as broker %d with epoch %d", registered.node_id, registered.epoch)
        if term is not None:
            await self._take_office(term)

    async def _look_for_controller(self) -> None:
        epoch, controller = await self._store.read_many([znodes.CONTROLLER_EPOCH, znodes.CONTROLLER])
        is_ours = controller is not None and controller.owner == self._store.session_id
        if epoch is None:
            self._is_suspect = True
            self._resign("its epoch is gone")
        if self.active_controller is not None:
            if is_ours and self.active_controller.term == term_of(epoch):
                await show_controller(self._store, controller, self._broker.node_id, self._clock.now_ms())
                return
            self._resign("another controller was elected")
        if is_ours and not self._was_fenced:
            await self._take_office(term_of(epoch))  # the answer to the election was lost
            return
        # No broker makes a persistent node for the controller.
        if controller is not None and (is_ours or controller.owner in (None, *self._former_sessions)):
            await self._store.delete(znodes.CONTROLLER, controller.version)
            controller = None
        if controller is None and asyncio.get_running_loop().time() >= self._abstains_until:
            self._was_fenced = False
            term = await elect(self._store, self._broker.node_id, epoch, self._clock.now_ms())
            if term is None:
                self._wake()
            else:
                await self._take_office(term)

    async def _take_office(self, term: Term) -> None:
        session_id = self._store.session_id
        await self._wait_for_company()
        await self._store.sync(znodes.LOG)
        async with self._publisher.turn:
            waking = asyncio.get_running_loop().call_later(_ABSTENTION_S, self._wake)  # if none is elected until then
            self._abstains_until = waking.when()
            await _mend_log_or_leave(self._store, term, self._publisher.image, self._rules.levels.highest)
            self._abstains_until = 0.0
            stored = await catch_up(self._store, self._publisher, self._rules.levels.highest)
            await mend_derived(self._store, term.fence, self._publisher.image)
            writer = Writer(self._store, term.fence, stored, self._rules.new_id, self._rules.levels.highest)
            active_controller = ActiveController(term, writer, self._publisher, self._rules.metrics, self._fenced)
            registered = await read_registered(self._store, self._told, self._publisher.image.brokers)

            def decide(image: MetadataImage) -> Decision[None]:
                image = replace(image, controller_id=self._broker.node_id, controller_epoch=term.epoch)
                return self._decide_registered(image, registered)

            self._entering = active_controller  # from here on an end of the session closes it
            if session_id != self._store.session_id or self.registration is None:
                raise StoreError(StoreErrorKind.SESSION_ENDED, znodes.CONTROLLER)
            await active_controller.unblock(self._broker.node_id)
            await active_controller.change_in_turn(decide, can_refuse=False)
            if not active_controller.is_open:
                raise StoreError(StoreErrorKind.SESSION_ENDED, znodes.CONTROLLER)
            self.active_controller = active_controller
            upkeep = Upkeep(self._store, active_controller, self._publisher, self._rules.inspection_s, self._told)
            self._chores = [Balance(active_controller, self._publisher), upkeep]
        self._tell("elected controller, epoch %d", term.epoch)

    async def _wait_for_company(self) -> None:
        if not self._is_joined:
            return  # a starting broker knows nothing of the time before
        has_waited = False
        while not self._is_stopping:
            wait_s = self._company_s(await read_registered(self._store, self._told, self._publisher.image.brokers))
            if not wait_s:
                break
            has_waited = True
            self._woken.clear()
            await self._wait(min(wait_s, _RETRY_S))
        if has_waited:
            self._wake()  # the event that ended the wait may be news of something else

    def _company_s(self, registered: Mapping[int, BrokerRegistration]) -> float:
        if self.registration is None:  # the session ended: this broker is not registered, and waits for no other
            return 0.0
        known, now = self._publisher.image.brokers, asyncio.get_running_loop().time()
        return self._company.wait_s(self.registration, known, registered, now)

    async def _count_brokers(self, active_controller: ActiveController) -> None:
        registered = await read_registered(self._store, self._told, self._publisher.image.brokers)
        wait_s = self._company_s(registered)
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self._wake)  # a broker that comes back wakes us before
        elif not are_counted(self._publisher.image, registered):
            await active_controller.change(lambda image: self._decide_registered(image, registered), can_refuse=False)

    def _decide_registered(self, image: MetadataImage, registered: Mapping[int, BrokerRegistration]) -> Decision[None]:
        return decide_registered(image, registered, self._rules.may_be_unclean, self._rules.losses.by_partition)


async def _mend_log_or_leave(store: Store, term: Term, image: MetadataImage, highest_level: int) -> None:
    """Where this broker cannot repair the log another broker may know more, and is to be elected."""
    try:
        await mend_log(store, term.fence, image, highest_level)
    except StoreError as error:
        if error.kind is StoreErrorKind.CORRUPT:
            await store.delete(znodes.CONTROLLER)
        raise


def _complain(error: Exception) -> None:
    if isinstance(error, ApiError) or (isinstance(error, StoreError) and error.kind is not StoreErrorKind.CORRUPT):
        logger.warning("the metadata store cannot be followed now: %s", error)
    elif isinstance(error, StoreError):  # another program wrote there, so a traceback of our code explains nothing
        logger.error("the metadata cannot be followed: %s", error)
    else:
        logger.error("the metadata cannot be followed: %s", error, exc_info=error)


def _is_taken(error: StoreError | ApiError) -> bool:
    """Whether a session of this broker's former process holds its node."""
    if isinstance(error, ApiError) or error.path.startswith(znodes.LOG):
        return False
    return error.kind is StoreErrorKind.NODE_EXISTS


def _is_passing(error: StoreError | ApiError, store: Store) -> bool:
    """Whether the connection, the session or the controller's term was lost, and will be back."""
    if isinstance(error, ApiError):
        return error.code is ErrorCode.NOT_CONTROLLER
    is_connected = store.session_state is SessionState.CONNECTED
    return error.kind in (StoreErrorKind.OUTCOME_UNKNOWN, StoreErrorKind.SESSION_ENDED) or not is_connected
