"""The TLS handshakes of one listener: how many at once, in which order, for how long. No sockets, no OpenSSL.

A client passes these states, and may be refused or leave in each of them:

    silent -> waiting -> shaking -> (served)

- silent: nothing has come yet. Costs what an idle plain connection costs.
- waiting: the first byte is there, and all places are taken, those of the listener or those of the client's address.
  Places are given in the order of arrival among those whose address has one left.
- shaking: has a place, which is what costs memory.

Each state has a time limit. That for shaking is shorter while others wait: whoever holds places and sends nothing can
delay others for two seconds, and no longer.

Steps of handshakes take up to a millisecond each. So they are queued, and one step is under way at a time, beside the
event loop where there is a thread for them (`StepThread`): however many clients come at once, those that are served
wait for one step at most, not for all. Each step begins a turn later than it was asked for: a client that sends its
first message and hangs up is gone by then.
"""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from penstock.server.net import limits

# Whether the handshake is over, or why it failed.
Outcome = bool | Exception
# A step, which touches nothing but OpenSSL and may run in any thread; and who is told of its outcome.
Work = Callable[[], Outcome]
Done = Callable[[Outcome], None]


class Steps(Protocol):
    """Where steps are made."""

    def run(self, work: Work, done: Done) -> None: ...

    def close(self) -> None: ...


class StepsHere:
    """On the loop, at once."""

    def run(self, work: Work, done: Done) -> None:
        done(work())

    def close(self) -> None:
        """Nothing is left."""


class Shaking(Protocol):
    """A client's connection before its handshake is over."""

    @property
    def address(self) -> str: ...

    def start_handshake(self) -> None: ...

    def begin_step(self) -> Work: ...

    def end_step(self, outcome: Outcome) -> None: ...

    def expire_handshake(self) -> None: ...


class Handshakes:
    """`call_soon` and `call_later(seconds, call)` are the loop's; `run` makes steps."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        run: Callable[[Work, Done], None],
        most: int = limits.HANDSHAKES,
        most_per_address: int = limits.HANDSHAKES_PER_ADDRESS,
    ) -> None:
        self._now_ms = now_ms
        self._call_soon = call_soon
        self._call_later = call_later
        self._run = run
        self._most = most
        self._most_per_address = most_per_address
        # All states share one time limit, and a new state puts a client to the end: so the first expires first.
        self._deadlines: OrderedDict[Shaking, int] = OrderedDict()
        self._waiting: dict[str, OrderedDict[Shaking, None]] = {}  # by address, in the order of arrival
        self._turns: deque[str] = deque()  # addresses with clients that wait
        self._shaking: OrderedDict[Shaking, int] = OrderedDict()  # since when, the oldest first
        self._by_address: Counter[str] = Counter()
        self._steps: OrderedDict[Shaking, None] = OrderedDict()  # those who wait for one
        self._is_stepping = False
        self._is_sweeping = False

    @property
    def under_way(self) -> int:
        return len(self._shaking)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, client: Shaking) -> None:
        """A client that is silent so far."""
        self._set_deadline(client)
        if not self._is_sweeping:
            self._is_sweeping = True
            self._call_later(1.0, self._sweep)

    def request_place(self, client: Shaking) -> bool:
        """Whether there is a place at once; otherwise `start_handshake` is called when there is."""
        if not self._has_room(client.address):
            waiting = self._waiting.get(client.address)
            if waiting is None:
                waiting = self._waiting[client.address] = OrderedDict()
                self._turns.append(client.address)
            waiting[client] = None
            self._set_deadline(client)
            return False
        self._take_place(client)
        return True

    def request_step(self, client: Shaking) -> None:
        """May be called again before the step."""
        self._steps[client] = None
        if not self._is_stepping:
            self._is_stepping = True
            self._call_soon(self._step_soon)

    def remove(self, client: Shaking) -> None:
        """The handshake is over, or the client is gone. May be called again."""
        self._deadlines.pop(client, None)
        self._stop_waiting(client)
        if client in self._shaking:
            del self._shaking[client]
            self._by_address[client.address] -= 1
            if not self._by_address[client.address]:
                del self._by_address[client.address]
            self._give_places()

    # -------------------------------------------------------------------------------------------- places

    def _has_room(self, address: str) -> bool:
        return len(self._shaking) < self._most and self._by_address[address] < self._most_per_address

    def _take_place(self, client: Shaking) -> None:
        self._shaking[client] = self._now_ms()
        self._by_address[client.address] += 1
        self._set_deadline(client)

    def _give_places(self) -> None:
        """To the addresses in turn, so that one with thousands of clients does not keep another waiting for long."""
        for _ in range(len(self._turns)):
            if len(self._shaking) >= self._most:
                return
            address = self._turns.popleft()
            waiting = self._waiting[address]
            if self._by_address[address] < self._most_per_address:
                client, _ = waiting.popitem(last=False)
                self._take_place(client)
                client.start_handshake()
            if waiting:
                self._turns.append(address)
            else:
                del self._waiting[address]

    def _stop_waiting(self, client: Shaking) -> None:
        waiting = self._waiting.get(client.address)
        if waiting is not None and client in waiting:
            del waiting[client]
            if not waiting:
                del self._waiting[client.address]
                self._turns.remove(client.address)

    # -------------------------------------------------------------------------------------------- time

    def _step_soon(self) -> None:
        """What is called in this turn comes before the loop looks at its sockets."""
        self._call_soon(self._step)

    def _step(self) -> None:
        while self._steps:
            client, _ = self._steps.popitem(last=False)
            if client in self._shaking:
                self._run(client.begin_step(), functools.partial(self._stepped, client))
                return
        self._is_stepping = False

    def _stepped(self, client: Shaking, outcome: Outcome) -> None:
        try:
            if client in self._shaking:  # otherwise it has gone meanwhile
                client.end_step(outcome)
        finally:  # a bug that one client brings to light must not keep all others waiting
            if self._steps:
                self._call_soon(self._step_soon)
            else:
                self._is_stepping = False

    def _set_deadline(self, client: Shaking) -> None:
        self._deadlines.pop(client, None)
        self._deadlines[client] = self._now_ms() + limits.HANDSHAKE_TIMEOUT_MS

    def _sweep(self) -> None:
        now_ms = self._now_ms()
        while self._deadlines:
            client = next(iter(self._deadlines))
            if self._deadlines[client] > now_ms:
                break
            self._expire(client)
        while self._waiting and self._shaking:
            client = next(iter(self._shaking))
            if self._shaking[client] + limits.PRESSED_HANDSHAKE_TIMEOUT_MS > now_ms:
                break
            self._expire(client)
        if self._deadlines:
            self._call_later(1.0, self._sweep)
        else:
            self._is_sweeping = False

    def _expire(self, client: Shaking) -> None:
        self.remove(client)
        client.expire_handshake()
