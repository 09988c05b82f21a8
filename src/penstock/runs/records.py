"""The records of `_penstock_runs` and `_penstock_commands`: versioned JSON. Bytes alone. docs/reference/runs.md lists
the fields.

`_penstock_runs`      key `<run id>`          what the run does now: a `RunRecord`
                      key `<run id>/graph`    what the run is made of: a `Graph`
                      no value                the run is forgotten
`_penstock_commands`  key `<command id>`      what somebody asks of a run: a `Command`

Rules:
- A reader ignores an unknown value: one of a newer version, of another kind, or no JSON at all. `Ignored` has the
  reason. An unknown field is no reason: fields are added without a new version. A new word for a state, a verb or an
  outcome needs one.
- A record is a few hundred bytes to a few KB. Texts and lists are cut where a record is made, never by a reader.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

VERSION: Final = 1
GRAPH_SUFFIX: Final = "/graph"
# A stack trace belongs into a log. The first line of a cause is seldom longer than this.
MAX_TEXT: Final = 1000
MAX_LABEL: Final = 200
# A larger drawing helps no user; the record stays below about 50 KB.
MAX_NODES: Final = 200

_Record = TypeVar("_Record")


class State(enum.StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"  # a command has paused it; a batch is under way
    PAUSED = "paused"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"  # never written: a reader's word for a run whose heartbeat is overdue


ENDED: Final = frozenset({State.STOPPED, State.FAILED})


class Verb(enum.StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RESTART = "restart"


class CommandOutcome(enum.StrEnum):
    ACCEPTED = "accepted"  # under way; a later record has the outcome
    DONE = "done"
    REFUSED = "refused"
    OVERTAKEN = "overtaken"  # accepted, and then another event came first
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The outcome of one command."""

    command: str  # the command's id
    verb: Verb
    outcome: CommandOutcome
    text: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class PartFigures:
    """The progress of one part of a run: a query of a pipeline, a task of a connector. Rows count since the part's
    start.
    """

    part: str
    batch: int = -1  # the last that ended; -1: none yet
    batch_ms: int = 0
    rows_in: int = 0
    rows_out: int = 0
    lag: int = 0  # as of the last batch
    watermark: str = ""
    written: Mapping[str, int] = field(default_factory=dict)  # rows out by sink


@dataclass(frozen=True, slots=True)
class RunRecord:
    run: str
    type: str
    name: str
    state: State
    host: str = ""
    pid: int = 0
    version: str = ""  # of Penstock
    started_ms: int = 0
    changed_ms: int = 0  # when the state last changed
    written_ms: int = 0
    heartbeat_every_ms: int = 0
    lost_after_ms: int = 0
    restarts: int = 0
    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    lag: int = 0
    parts: tuple[PartFigures, ...] = ()
    error: str = ""
    acknowledgements: tuple[Acknowledgement, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphNode:
    id: str
    kind: str  # source, combine, step, branch, sink or dead-letters
    label: str
    part: str = ""  # empty: every part has it


@dataclass(frozen=True, slots=True)
class Graph:
    run: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[str, str], ...]  # node ids


@dataclass(frozen=True, slots=True)
class Command:
    """To one run by its id, or, where `run` is empty, to all runs with that type and name."""

    id: str
    verb: Verb
    run: str = ""
    type: str = ""
    name: str = ""
    by: str = ""
    sent_ms: int = 0
    valid_for_ms: int = 0  # after the broker took the record


@dataclass(frozen=True, slots=True)
class Forgotten:
    key: str


@dataclass(frozen=True, slots=True)
class Ignored:
    reason: str


def key_of(record: RunRecord | Graph | Command) -> bytes:
    if isinstance(record, Command):
        return record.id.encode()
    return (record.run + (GRAPH_SUFFIX if isinstance(record, Graph) else "")).encode()


def encode_run(record: RunRecord) -> bytes:
    document = _plain(record, "run")
    document["error"] = shorten(record.error, MAX_TEXT)
    document["rows_in_per_s"] = round(record.rows_in_per_s, 1)
    document["rows_out_per_s"] = round(record.rows_out_per_s, 1)
    document["parts"] = [{**_fields(part), "written": dict(part.written)} for part in record.parts]
    document["acknowledgements"] = [
        {**_fields(each), "text": shorten(each.text, MAX_TEXT)} for each in record.acknowledgements
    ]
    return _dump(document)


def encode_graph(graph: Graph) -> bytes:
    nodes = graph.nodes[:MAX_NODES]
    kept = {node.id for node in nodes}
    document = _plain(graph, "graph")
    document["nodes"] = [{**_fields(node), "label": shorten(node.label, MAX_LABEL)} for node in nodes]
    document["edges"] = [list(edge) for edge in graph.edges if kept.issuperset(edge)]
    return _dump(document)


def encode_command(command: Command) -> bytes:
    return _dump(_plain(command, "command"))


def decode_run_record(key: bytes | None, value: bytes | None) -> RunRecord | Graph | Forgotten | Ignored:
    """A record of `_penstock_runs`."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return Ignored("its key is no text")
    if not text:
        return Ignored("it has no key")
    if value is None:
        return Forgotten(text)
    record: RunRecord | Graph | Ignored
    if text.endswith(GRAPH_SUFFIX):
        record = _decode(value, "graph", _read_graph)
    else:
        record = _decode(value, "run", _read_run)
    if not isinstance(record, Ignored) and key_of(record) != key:
        return Ignored(f"its key is {text!r} and its run {record.run!r}")
    return record


def decode_command(value: bytes | None) -> Command | Ignored:
    """A record of `_penstock_commands`."""
    return Ignored("it has no value") if value is None else _decode(value, "command", _read_command)


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _decode(value: bytes, kind: str, read: Callable[[Mapping[str, Any]], _Record]) -> _Record | Ignored:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return Ignored("it is no JSON")
    if not isinstance(document, dict):
        return Ignored("it is no JSON object")
    version = document.get("v")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        return Ignored("it has no version")
    if version > VERSION:
        return Ignored(f"its version {version} is newer than {VERSION}")
    if document.get("kind") != kind:
        return Ignored(f"it is of the kind {str(document.get('kind'))[:40]!r}, not {kind!r}")
    try:
        return read(document)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        return Ignored(f"a field is wrong: {shorten(repr(error), MAX_LABEL)}")


def _read_run(document: Mapping[str, Any]) -> RunRecord:
    return RunRecord(
        run=_text(document["run"]),
        type=_text(document["type"]),
        name=_text(document["name"]),
        state=State(document["state"]),
        host=_text(document.get("host", "")),
        pid=int(document.get("pid", 0)),
        version=_text(document.get("version", "")),
        started_ms=int(document.get("started_ms", 0)),
        changed_ms=int(document.get("changed_ms", 0)),
        written_ms=int(document.get("written_ms", 0)),
        heartbeat_every_ms=int(document.get("heartbeat_every_ms", 0)),
        lost_after_ms=int(document.get("lost_after_ms", 0)),
        restarts=int(document.get("restarts", 0)),
        rows_in_per_s=float(document.get("rows_in_per_s", 0.0)),
        rows_out_per_s=float(document.get("rows_out_per_s", 0.0)),
        lag=int(document.get("lag", 0)),
        parts=tuple(_read_part(each) for each in document.get("parts", ())),
        error=_text(document.get("error", "")),
        acknowledgements=tuple(_read_acknowledgement(each) for each in document.get("acknowledgements", ())),
    )


def _read_part(document: Mapping[str, Any]) -> PartFigures:
    return PartFigures(
        part=_text(document["part"]),
        batch=int(document.get("batch", -1)),
        batch_ms=int(document.get("batch_ms", 0)),
        rows_in=int(document.get("rows_in", 0)),
        rows_out=int(document.get("rows_out", 0)),
        lag=int(document.get("lag", 0)),
        watermark=_text(document.get("watermark", "")),
        written={_text(sink): int(count) for sink, count in document.get("written", {}).items()},
    )


def _read_acknowledgement(document: Mapping[str, Any]) -> Acknowledgement:
    return Acknowledgement(
        command=_text(document["command"]),
        verb=Verb(document["verb"]),
        outcome=CommandOutcome(document["outcome"]),
        text=_text(document.get("text", "")),
        by=_text(document.get("by", "")),
        at_ms=int(document.get("at_ms", 0)),
    )


def _read_graph(document: Mapping[str, Any]) -> Graph:
    nodes = tuple(
        GraphNode(_text(each["id"]), _text(each["kind"]), _text(each["label"]), _text(each.get("part", "")))
        for each in document["nodes"]
    )
    return Graph(_text(document["run"]), nodes, tuple((_text(first), _text(then)) for first, then in document["edges"]))


def _read_command(document: Mapping[str, Any]) -> Command:
    command = Command(
        id=_text(document["id"]),
        verb=Verb(document["verb"]),
        run=_text(document.get("run", "")),
        type=_text(document.get("type", "")),
        name=_text(document.get("name", "")),
        by=shorten(_text(document.get("by", "")), MAX_LABEL),
        sent_ms=int(document.get("sent_ms", 0)),
        valid_for_ms=int(document["valid_for_ms"]),
    )
    if not 0 < len(command.id) <= MAX_LABEL or not (command.run or command.name):
        raise ValueError(f"a command needs an id of at most {MAX_LABEL} letters, and a run or a name")
    return command


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _fields(record: object) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}  # type: ignore[attr-defined]


def _plain(record: object, kind: str) -> dict[str, Any]:
    return {"v": VERSION, "kind": kind, **_fields(record)}


def _dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
