"""Grace: how long a window waits for late rows, by its own setting or by that of the sources of its rows."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import Aggregate, Fold, Node, Process, Source, StreamJoin, Topology
from penstock.streams.topology.shapes import ancestors
from penstock.streams.topology.windows import JoinWindow, Window


def window_of(node: Node) -> Window | JoinWindow | None:
    match node:
        case Aggregate(window=window) | Fold(window=window):
            return window
        case StreamJoin(window=join_window):
            return join_window
    return None


def rings_by_event_time(node: Process) -> bool:
    """Whether the class has timers that ring when the time of the events comes to them."""
    on_timer = getattr(node.processor, "on_timer", None)
    is_own = on_timer is not None and on_timer.__qualname__ != "Processor.on_timer"
    return is_own and getattr(node.processor, "time", "event") == "event"


def goes_by_clock(node: Process) -> bool:
    """Whether the class has timers, or states with a time to live, that the clock ends."""
    slots = [slot for owner in node.processor.__mro__ for slot in vars(owner).values()]
    is_mortal = any(getattr(getattr(slot, "spec", None), "ttl_ms", None) is not None for slot in slots)
    return is_mortal or getattr(node.processor, "time", "event") == "processing"


def needs_grace(node: Node) -> bool:
    return rings_by_event_time(node) if isinstance(node, Process) else window_of(node) is not None


def grace_ms(topology: Topology, node: Node) -> int | None:
    """How long a windowed node waits: its own grace, else the largest of its sources'; None: none of them has one."""
    window = window_of(node)
    if window is not None and window.grace_ms is not None:
        return window.grace_ms
    return max(_graces(topology, node), default=None)


def _graces(topology: Topology, node: Node) -> Iterator[int]:
    for name in node.inputs:
        for each in (topology.node(name), *ancestors(topology, name)):
            if isinstance(each, Source) and each.grace_ms is not None:
                yield each.grace_ms


def check_grace(topology: Topology, node: Node) -> None:
    """Checks a node that is to be added: a window without any grace would drop late rows, or wait for ever, unsaid."""
    if not needs_grace(node) or grace_ms(topology, node) is not None:
        return
    hint = 'Give the stream a grace: app.stream(..., grace="10 seconds").'
    if not isinstance(node, Process):
        hint = (
            f'Give the window a grace, as in tumbling("1 minute", grace="10 seconds"). {hint[:-1]} is for all of them.'
        )
    raise StreamsError(f"nobody says how long {node.name} waits for late rows", hint)
