"""Places, turns and deadlines of handshakes, without a socket."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from penstock.server.net import limits
from penstock.server.net.handshakes import Done, Handshakes, Outcome, Work


class Client:
    def __init__(self, address: str) -> None:
        self.address = address
        self.is_started = False
        self.steps = 0
        self.is_expired = False

    def start_handshake(self) -> None:
        self.is_started = True

    def begin_step(self) -> Work:
        return lambda: False

    def end_step(self, outcome: Outcome) -> None:
        self.steps += 1

    def expire_handshake(self) -> None:
        self.is_expired = True


class Stage:
    """A loop whose turns and time the test makes."""

    def __init__(self, most: int = 4, most_per_address: int = 2) -> None:
        self.now_ms = 0
        self.soon: deque[Callable[[], None]] = deque()
        self.later: list[Callable[[], None]] = []
        self.steps: deque[tuple[Work, Done]] = deque()
        self.handshakes = Handshakes(
            lambda: self.now_ms,
            self.soon.append,
            lambda _, call: self.later.append(call),
            lambda work, done: self.steps.append((work, done)),
            most,
            most_per_address,
        )

    def turn(self) -> None:
        """What was called for now; what that calls for comes with the next turn."""
        for _ in range(len(self.soon)):
            self.soon.popleft()()

    def make_step(self) -> None:
        """The one that is under way."""
        work, done = self.steps.popleft()
        done(work())

    def arrive(self, address: str) -> Client:
        client = Client(address)
        self.handshakes.add(client)
        client.is_started = self.handshakes.request_place(client)
        return client

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        due, self.later = self.later, []
        for call in due:
            call()


def test_client_waits_when_its_address_has_all_its_places() -> None:
    stage = Stage()
    first = [stage.arrive("a") for _ in range(4)]
    assert [client.is_started for client in first] == [True, True, False, False]
    assert stage.arrive("b").is_started
    stage.handshakes.remove(first[0])
    assert [client.is_started for client in first] == [True, True, True, False]


def test_client_waits_when_the_listener_has_no_place_left() -> None:
    stage = Stage()
    started = [stage.arrive(address) for address in "aabb"]
    waiting = stage.arrive("c")
    assert (stage.handshakes.under_way, stage.handshakes.waiting, waiting.is_started) == (4, 1, False)
    stage.handshakes.remove(started[0])
    assert waiting.is_started


def test_addresses_take_turns_when_one_has_many_clients() -> None:
    stage = Stage(most=2, most_per_address=2)
    started = [stage.arrive("a"), stage.arrive("a")]
    crowd = [stage.arrive("a") for _ in range(10)]
    other = stage.arrive("b")
    stage.handshakes.remove(started[0])
    stage.handshakes.remove(started[1])
    assert other.is_started
    assert sum(client.is_started for client in crowd) == 1


def test_one_step_is_under_way_when_many_are_due() -> None:
    stage = Stage()
    clients = [stage.arrive(address) for address in "ab"]
    for client in clients:
        stage.handshakes.request_step(client)
    stage.turn()
    assert not stage.steps, "a client that hangs up is noticed before"
    stage.turn()
    assert len(stage.steps) == 1
    stage.make_step()
    assert [client.steps for client in clients] == [1, 0]
    assert not stage.steps
    stage.turn()
    stage.turn()
    stage.make_step()
    assert [client.steps for client in clients] == [1, 1]
    assert not stage.soon


def test_no_step_is_made_when_the_client_has_gone() -> None:
    stage = Stage()
    client = stage.arrive("a")
    stage.handshakes.request_step(client)
    stage.turn()
    stage.handshakes.remove(client)
    stage.turn()
    assert not stage.steps
    stage.handshakes.request_step(other := stage.arrive("b"))
    stage.turn()
    stage.turn()
    stage.handshakes.remove(other)
    stage.make_step()
    assert not client.steps
    assert not other.steps


def test_client_expires_when_it_takes_too_long() -> None:
    stage = Stage()
    slow = stage.arrive("a")
    silent = Client("a")
    stage.handshakes.add(silent)
    stage.pass_time(limits.HANDSHAKE_TIMEOUT_MS - 1)
    quick = stage.arrive("a")
    assert not slow.is_expired
    stage.pass_time(1)
    assert (slow.is_expired, silent.is_expired, quick.is_expired) == (True, True, False)
    assert stage.handshakes.under_way == 1
    stage.pass_time(limits.HANDSHAKE_TIMEOUT_MS)
    assert quick.is_expired
    assert not stage.later, "nobody is left to look after"


def test_slow_client_makes_room_soon_when_others_wait() -> None:
    stage = Stage()
    slow = [stage.arrive("a"), stage.arrive("a")]
    stage.pass_time(limits.PRESSED_HANDSHAKE_TIMEOUT_MS)
    assert not slow[0].is_expired, "nobody needs its place"
    waiting = stage.arrive("a")
    stage.pass_time(0)
    assert (slow[0].is_expired, waiting.is_started, slow[1].is_expired) == (True, True, False)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(1, 5), st.integers(1, 3))
def test_places_are_never_more_than_allowed_nor_left_empty(
    events: list[tuple[str, bool]], most: int, most_per_address: int
) -> None:
    stage = Stage(most, most_per_address)
    here: list[Client] = []
    for address, comes in events:
        if comes or not here:
            here.append(stage.arrive(address))
        else:
            stage.handshakes.remove(here.pop(len(events) % len(here)))
        started = [client.address for client in here if client.is_started]
        waiting = {client.address for client in here if not client.is_started}
        assert len(started) == stage.handshakes.under_way <= most
        assert all(started.count(each) <= most_per_address for each in "abc")
        assert len(started) == most or all(started.count(each) == most_per_address for each in waiting)
