"""What goes wrong among several machines.

The power may fail on one machine at a time, and only while all is well. What the in-sync replicas have acknowledged is
in the page caches of them all. A broker that lost its own must not be the last in-sync one: that is promised only with
eligible leader replicas (KIP-966). So until that machine has caught up, no other one is taken out of the in-sync sets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from penstock.cluster.image import MetadataImage, PartitionState
from penstock.cluster.store.memory import LostAnswer
from proof.simulation.cluster.stage import Stage
from proof.simulation.plan import FOLLOWER, LEADER, OUTSIDER, Fault, FaultKind
from proof.simulation.schedule import FAULTS
from proof.simulation.topics import RECORDS

_PAUSE_AT_WRITE_MS = (300, 3_500)
_SLOWNESS = 40.0
# Between a change of an in-sync set and what it sets off.
_SET_OFF_MS = (0.0, 0.0, 2.0, 30.0)
_HARMLESS = frozenset(
    {
        FaultKind.CLOCK_JUMP,
        FaultKind.SLOW_NETWORK,
        FaultKind.SLOW_DISK,
        FaultKind.RESET,
        FaultKind.LOST_ANSWER,
        FaultKind.KILL_AT_JOIN,
        FaultKind.KILL_AT_LEAVE,
        FaultKind.KILL_AT_MOVE,
    }
)

Places = tuple[int, ...]


class Faults:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._notebook = stage.setting.notebook
        self._damaged: int | None = None  # the machine whose power failed, or is about to
        self._has_failed = False  # its power has
        self._armed: dict[FaultKind, Fault] = {}  # for the next change of an in-sync set

    def strike(self, fault: Fault) -> None:
        if self.stage.is_over:
            return
        is_for_all = fault.kind is FaultKind.STORE_OUTAGE
        places = tuple(range(len(self.stage.machines))) if is_for_all else self._find(fault.machines)
        self._notebook.note("fault", f"{fault.kind.value} {fault.length_ms} {places}")
        if fault.kind not in _HARMLESS and not self.may_strike(places):
            self._notebook.note("fault", "spared: a machine without its page cache is not in sync yet")
            return
        _STRIKES[fault.kind](self, fault, places)

    def process_ended(self, place: int, is_power_cut: bool) -> None:
        self.stage.network.process_ended(place, is_power_cut=is_power_cut)
        if is_power_cut:
            self._has_failed = True

    def may_strike(self, places: Places) -> bool:
        if self.stage.is_over:
            return False
        if self._damaged is None:
            return True
        if self._has_failed and self.stage.is_well():
            self._damaged = None
            return True
        return places == (self._damaged,)

    def cut_power(self, fault: Fault, places: Places) -> None:
        (place,) = places
        is_allowed = self.stage.is_well()
        if is_allowed:
            self._damaged, self._has_failed = place, False
        self.stage.crash(place, fault.length_ms, is_power_cut=is_allowed)

    def empty_disk(self, fault: Fault, places: Places) -> None:
        (place,) = places
        if self.stage.is_well():
            self._damaged = place
            self.stage.lose_disk(place)
        else:
            self.stage.crash(place, 0, is_power_cut=False)

    def retire(self, place: int) -> bool:
        """A broker that holds no replica, as all brokers know, goes with its disk, and an empty one follows."""
        images = [machine.server.broker.metadata.image for machine in self.stage.machines if machine.server is not None]
        is_empty = not any(
            place in state.replicas for image in images for topic in image.topics.values() for state in topic.partitions
        )
        if not is_empty or not images or not self.may_strike((place,)):
            return False
        self._damaged, self._has_failed = place, False
        self.stage.lose_disk(place)
        return True

    # ---- in-sync sets

    def arm(self, fault: Fault, places: Places) -> None:
        self._armed[fault.kind] = fault

    def note_image(self, old: MetadataImage, new: MetadataImage) -> None:
        """Of all machines, the newest one. A change of an in-sync set may be what an armed fault waits for."""
        if not self._armed:
            return
        for topic in new.topics.values():
            before = old.topics.get(topic.name)
            if before is None or before is topic:
                continue
            for was, state in zip(before.partitions, topic.partitions, strict=False):
                if (state.adding, state.removing) != (was.adding, was.removing):
                    self._set_off_at_move(was, state)
                if set(state.isr) - set(was.isr):
                    self._set_off(FaultKind.KILL_AT_JOIN, was, state)
                elif set(was.isr) - set(state.isr):
                    self._set_off(FaultKind.KILL_AT_LEAVE, was, state)

    def _set_off(self, kind: FaultKind, was: PartitionState, state: PartitionState) -> None:
        fault = self._armed.pop(kind, None)
        if fault is None or state.leader < 0:
            return
        stayed = [node for node in was.isr if node in state.isr and node != state.leader]
        self._kill_soon((state.leader, *stayed)[: max(fault.length_ms, 1)])

    def _set_off_at_move(self, was: PartitionState, state: PartitionState) -> None:
        """The machines that a move concerns: who leads, who comes, who leaves."""
        if self._armed.pop(FaultKind.KILL_AT_MOVE, None) is not None:
            concerned = (was.leader, state.leader, *was.adding, *state.adding, *was.removing, *state.removing)
            self._kill_soon((self.stage.chance.choice([node for node in concerned if node >= 0]),))

    def _kill_soon(self, places: Places) -> None:
        def kill() -> None:
            if self.may_strike(places):
                _kill(self, Fault(0, FaultKind.KILL), places)

        self.stage.world.after(self.stage.chance.choice(_SET_OFF_MS), FAULTS, kill)

    # ---- roles

    def _find(self, machines: Places) -> Places:
        """The machines of the moment, as those with the newest metadata see it."""
        servers = [machine.server for machine in self.stage.machines]
        images = [server.broker.metadata.image for server in servers if server is not None]
        newest = max(images, key=lambda image: (image.controller_epoch, image.number), default=None)
        if not machines:
            return (0,) if newest is None or newest.controller_id < 0 else (newest.controller_id,)
        return tuple(dict.fromkeys(_place_of(each, newest) for each in machines))


def _place_of(role: int, image: MetadataImage | None) -> int:
    if role >= 0:
        return role
    topic = None if image is None else image.topics.get(RECORDS)
    if topic is None:
        return 0
    state = topic.partitions[0]
    followers = [node for node in state.isr if node != state.leader]
    outsiders = [node for node in state.replicas if node not in state.isr]
    wanted = {
        LEADER: [state.leader] if state.leader >= 0 else followers,
        FOLLOWER: followers,
        OUTSIDER: outsiders or followers,
    }
    return (wanted[role] or list(state.replicas))[0]


def _kill(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.crash(place, fault.length_ms, is_power_cut=False)


def _cut_power_anyway(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.crash(place, fault.length_ms, is_power_cut=True)


def _restart(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.restart(place)


def _pause(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.pause(place, fault.length_ms)


def _break_disk(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.machines[place].break_disk(fault.kind, fault.length_ms)


def _slow_disk(faults: Faults, fault: Fault, places: Places) -> None:
    stage = faults.stage
    for place in places:
        stage.set_speed(place, _SLOWNESS)
        stage.for_a_while(fault.length_ms, functools.partial(stage.set_speed, place, 1))


def _cut(faults: Faults, fault: Fault, places: Places) -> None:
    one, other = _pair(faults, places)
    faults.stage.cut_ways([(one, other), (other, one)], fault.length_ms)


def _cut_one_way(faults: Faults, fault: Fault, places: Places) -> None:
    one, other = _pair(faults, places)
    faults.stage.cut_ways([(one, other)], fault.length_ms)


def _pair(faults: Faults, places: Places) -> tuple[int, int]:
    """Two machines; where two roles are one machine's, the next one, too."""
    return (places[0], places[1]) if len(places) > 1 else (places[0], (places[0] + 1) % len(faults.stage.machines))


def _reset(faults: Faults, fault: Fault, places: Places) -> None:
    faults.stage.network.reset(*_pair(faults, places))


def _isolate(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.isolate(place, fault.length_ms)


def _slow_network(faults: Faults, fault: Fault, places: Places) -> None:
    faults.stage.slow_network(fault.length_ms)


def _cut_from_store(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.cut_from_store(place, fault.length_ms)


def _reset_from_store(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.cut_from_store(place, fault.length_ms, is_noticed=True)


def _expire(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.links[place].expire()


def _lose_answer(faults: Faults, fault: Fault, places: Places) -> None:
    when = LostAnswer.AFTER_THE_CHANGE if fault.length_ms else LostAnswer.BEFORE_THE_CHANGE
    for place in places:
        faults.stage.links[place].lose_answer(when)


def _at_write(faults: Faults, place: int, action: Callable[[], None], fault: Fault) -> None:
    def act() -> None:
        if faults.may_strike((place,)):
            action()

    faults.stage.at_write(place, act, is_before=not fault.length_ms)


def _kill_at_write(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        _at_write(faults, place, functools.partial(faults.stage.crash, place, 0, is_power_cut=False), fault)


def _pause_at_write(faults: Faults, fault: Fault, places: Places) -> None:
    stage = faults.stage
    for place in places:
        length_ms = stage.chance.choice(_PAUSE_AT_WRITE_MS)
        _at_write(faults, place, functools.partial(stage.pause, place, length_ms), fault)


def _jump(faults: Faults, fault: Fault, places: Places) -> None:
    for place in places:
        faults.stage.clocks[place].skew_ms += fault.length_ms


_STRIKES: dict[FaultKind, Callable[[Faults, Fault, Places], None]] = {
    FaultKind.KILL: _kill,
    FaultKind.POWER_CUT: Faults.cut_power,
    FaultKind.POWER_CUT_OF_ALL: _cut_power_anyway,
    FaultKind.CLEAN_RESTART: _restart,
    FaultKind.PAUSE: _pause,
    FaultKind.SLOW_DISK: _slow_disk,
    FaultKind.CUT: _cut,
    FaultKind.ONE_WAY_CUT: _cut_one_way,
    FaultKind.RESET: _reset,
    FaultKind.ISOLATION: _isolate,
    FaultKind.SLOW_NETWORK: _slow_network,
    FaultKind.STORE_CUT: _cut_from_store,
    FaultKind.STORE_RESET: _reset_from_store,
    FaultKind.STORE_OUTAGE: _cut_from_store,
    FaultKind.EXPIRY: _expire,
    FaultKind.LOST_ANSWER: _lose_answer,
    FaultKind.KILL_AT_WRITE: _kill_at_write,
    FaultKind.PAUSE_AT_WRITE: _pause_at_write,
    FaultKind.CLOCK_JUMP: _jump,
    FaultKind.FULL_DISK: _break_disk,
    FaultKind.FAILING_WRITES: _break_disk,
    FaultKind.FAILING_SYNC: _break_disk,
    FaultKind.FAILING_READS: _break_disk,
    FaultKind.EMPTIED_DISK: Faults.empty_disk,
    FaultKind.KILL_AT_JOIN: Faults.arm,
    FaultKind.KILL_AT_LEAVE: Faults.arm,
    FaultKind.KILL_AT_MOVE: Faults.arm,
}
