"""What all simulated clients share: a script that asks, waits and pauses, and a network that loses, delays and breaks.

A script is a generator: it yields a pause in milliseconds or a `Call`, and gets the answer, or None when none came. A
call whose answer did not come may have been carried out, may still be under way, or may never have arrived.

The same scripts run against one broker and against several. With several, a call goes to the leader or coordinator that
the client has heard of, and a call that is for nobody in particular goes to any broker.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from penstock.broker.session import Reply, Session
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from proof.simulation.machine import Machine, joined
from proof.simulation.notebook import Notebook, Partition
from proof.simulation.routes import Routes
from proof.simulation.world import World

_SIZE_PREFIX = 4
_DELAYS_MS = (0.05, 0.05, 0.1, 0.3, 1.0, 3.0)
_LONG_DELAYS_MS = (30.0, 300.0, 1_200.0)
_LONG_DELAY = 0.03
_LOSS = 0.02
_DOUBLE = 0.03
_RECONNECT_MS = 20.0
_MOST_QUESTIONS = 100
_METADATA_VERSION = 12
DEFAULT_TIMEOUT_MS = 900.0
# What a coordinator is asked for.
FOR_GROUP, FOR_TRANSACTION = 0, 1

# Errors that pass by themselves: any client tries again.
TRANSIENT = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
    }
)

# With these errors the request may have been written all the same; coordinators answer a failed fsync with the second
# two. A leader that is none any more has perhaps written what the next leader keeps.
UNCERTAIN = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)

Answer = TypeVar("Answer", bound=Message)


class Call(NamedTuple):
    request: Message
    version: int
    timeout_ms: float = DEFAULT_TIMEOUT_MS
    node: int | None = None  # the broker to ask; None: any


Script = Generator["Call | float", Any, None]
Asking = Generator["Call | float", Any, Any]


@dataclass(slots=True)
class Setting:
    """The world, the machines and the notebook that all clients share. A broker's id is its machine's place."""

    world: World
    machines: Sequence[Machine]
    notebook: Notebook
    is_closing: bool = False
    slow_until_ms: float = 0.0
    patience: int = 1  # how many times longer than with one broker clients go on trying
    pauses_ms: tuple[float, ...] = (0.0, 1.0, 20.0, 150.0, 700.0)  # of clients, between two requests
    is_cut_off: Callable[[int], bool] = lambda _node: False  # a machine that clients do not reach
    # Takes away a machine whose broker holds no replica, with its disk; another one comes in its place. Tells whether.
    retire: Callable[[int], bool] = lambda _node: False


class Client:
    def __init__(self, number: int, kind: str, setting: Setting, seed: int) -> None:
        self.number = number
        self.name = f"{kind}-{number}"
        self.setting = setting
        self.notebook = setting.notebook
        self.chance = random.Random(seed * 1_000 + number)
        self.is_done = False
        self.lost_answers = 0
        self._script: Script | None = None
        self._turn = 0
        self._routes = Routes()
        self._sessions: dict[int, Session] = {}
        self._hang_up: Callable[[], None] | None = None

    # ---- for scripts

    def run(self) -> Script:
        raise NotImplementedError

    @property
    def goes_on(self) -> bool:
        return not self.setting.is_closing

    def pause(self) -> float:
        return self.chance.choice(self.setting.pauses_ms)

    def may_double(self, call: Call) -> bool:
        """Whether the request may arrive twice, as when a client tries again too early."""
        return False

    def now_ms(self) -> int:
        return self.setting.world.now_ms()

    def note(self, text: str) -> None:
        self.notebook.note(self.name, text)

    def unique(self) -> str:
        return f"{self.name}/{self.notebook.position()}"

    def find_coordinator(self, key: str, kind: int) -> Asking:
        """As every client of a coordinator begins; the broker makes its internal topic when it is first asked."""
        for _ in range(_MOST_QUESTIONS):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            response = yield from ask(Call(request, 4), FindCoordinatorResponse)
            if response is not None and not response.coordinators[0].error_code:
                self._routes.coordinators[kind, key] = response.coordinators[0].node_id
                return
            yield _RECONNECT_MS

    def coordinator(self, key: str, kind: int) -> Generator[Call | float, Any, int | None]:
        """Whom to ask about a group or a transactional id. None where nobody is known: any broker says so."""
        if self.is_alone:
            return None
        if (kind, key) not in self._routes.coordinators:
            yield from self.find_coordinator(key, kind)
        return self._routes.coordinators.get((kind, key))

    def leader(self, partition: Partition) -> Generator[Call | float, Any, int | None]:
        if self.is_alone:
            return None
        yield from self.find_leaders([partition])
        return self._routes.leaders.get(partition)

    def find_leaders(self, partitions: Sequence[Partition]) -> Asking:
        """Asks once for all where one is unknown; afterwards, too, some may be."""
        if any(partition not in self._routes.leaders for partition in partitions):
            names = sorted({topic for topic, _ in partitions})
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
            )
            response = yield from ask(Call(request, _METADATA_VERSION), MetadataResponse)
            if response is not None:
                self._routes.learn(response)

    def known_leader(self, partition: Partition) -> int | None:
        return self._routes.leaders.get(partition)

    def known_epoch(self, partition: Partition) -> int:
        return self._routes.epoch(partition)

    @property
    def is_alone(self) -> bool:
        """Whether there is one broker only."""
        return len(self.setting.machines) == 1

    # ---- driving the script

    def start(self) -> None:
        self._script = self.run()
        self.setting.world.after(self.chance.random() * 100, self.number, lambda: self._resume(None))

    def _resume(self, value: Message | None) -> None:
        assert self._script is not None
        self._turn += 1
        try:
            wanted = self._script.send(value)
        except StopIteration:
            self.is_done = True
            return
        if isinstance(wanted, Call):
            self._send(wanted)
        else:
            self.setting.world.after(wanted, self.number, lambda: self._resume(None))

    def _send(self, call: Call) -> None:
        turn, world = self._turn, self.setting.world
        self.notebook.requests += 1
        frame = _encode(call, self.name)
        node = call.node
        if node is None:
            node = 0 if self.is_alone else self.chance.randrange(len(self.setting.machines))
        world.after(call.timeout_ms, self.number, lambda: self._give_up(turn, "no answer"))
        if self.chance.random() < _LOSS:
            return  # the connection broke before the request was out
        for _ in range(2 if self.may_double(call) and self.chance.random() < _DOUBLE else 1):
            world.after(self._delay_ms(), self.number, lambda: self._deliver(turn, call, node, frame))

    def _deliver(self, turn: int, call: Call, node: int, frame: bytes) -> None:
        """The request arrives; perhaps long after its sender gave up on it."""
        if self.setting.is_cut_off(node):
            return
        session = self._sessions.get(node)
        if session is None:
            session = self._sessions[node] = Session(self.name, "10.0.0.1", "PLAINTEXT")
        machine = self.setting.machines[node]
        hang_up = machine.handle(session, frame, lambda reply: self._answer(turn, call, node, reply))
        if hang_up is None:
            self.setting.world.after(_RECONNECT_MS, self.number, lambda: self._give_up(turn, "refused"))
        elif turn == self._turn:
            self._hang_up = hang_up

    def _answer(self, turn: int, call: Call, node: int, reply: Reply) -> None:
        if self.chance.random() < _LOSS or self.setting.is_cut_off(node):
            return
        # The socket takes a file's part of an answer now or later.
        data = None if self.chance.random() < 0.5 else _read(reply)

        def arrive() -> None:
            if turn != self._turn:
                return
            received = _read(reply) if data is None else data
            if received is None:
                self._give_up(turn, "cut off")
                return
            response = _decode(call, received)
            self._hang_up = None
            if not self.is_alone:
                self._routes.heed(response)
            self._resume(response)

        self.setting.world.after(self._delay_ms(), self.number, arrive)

    def _give_up(self, turn: int, why: str) -> None:
        if turn != self._turn:
            return
        self.note(f"connection lost: {why}")
        self.lost_answers += 1
        hang_up, self._hang_up = self._hang_up, None
        if hang_up is not None:
            # The broker notices that the client is gone when it does.
            self.setting.world.after(self._delay_ms(), self.number, hang_up)
        self._sessions.clear()
        self._routes.forget()
        self._resume(None)

    def _delay_ms(self) -> float:
        if self.chance.random() < _LONG_DELAY or self.setting.world.time_ms < self.setting.slow_until_ms:
            return self.chance.choice(_LONG_DELAYS_MS)
        return self.chance.choice(_DELAYS_MS)


def ask(call: Call, expected: type[Answer]) -> Generator[Call | float, Any, Answer | None]:
    """The answer, or None."""
    return cast("Answer | None", (yield call))


def _encode(call: Call, client_id: str) -> bytes:
    request, version = call.request, call.version
    head = encode_request_header(request.API_KEY, version, 0, client_id, version >= request.FLEXIBLE_FROM)
    return head + encode(request, version)


def _decode(call: Call, data: bytes) -> Message:
    response, version = call.request.RESPONSE, call.version
    _, position = decode_response_header(data[_SIZE_PREFIX:], version >= response.FLEXIBLE_FROM)
    return decode(response, data[_SIZE_PREFIX:], version, position)


def _read(reply: Reply) -> bytes | None:
    try:
        return joined(reply)
    except (OSError, ValueError):
        return None
