"""The records of the two topics, there and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runs.records import (
    MAX_NODES,
    MAX_TEXT,
    Acknowledgement,
    Command,
    CommandOutcome,
    Forgotten,
    Graph,
    GraphNode,
    Ignored,
    PartFigures,
    RunRecord,
    State,
    Verb,
    decode_command,
    decode_run_record,
    encode_command,
    encode_graph,
    encode_run,
    key_of,
)

RECORD = RunRecord(
    run="jobs-1",
    type="pipeline",
    name="jobs",
    state=State.RUNNING,
    host="h1",
    pid=7,
    version="1.0",
    started_ms=1,
    changed_ms=2,
    written_ms=3,
    heartbeat_every_ms=3000,
    lost_after_ms=20_000,
    restarts=1,
    rows_in_per_s=12.5,
    rows_out_per_s=0.5,
    lag=4,
    parts=(PartFigures("main", 17, 800, 100, 90, 4, "2026-01-01", {"lake": 90}),),
    error="ä",
    acknowledgements=(Acknowledgement("c1", Verb.PAUSE, CommandOutcome.DONE, "ok", "me@h2", 5),),
)
GRAPH = Graph("jobs-1", (GraphNode("a", "source", "topic a"), GraphNode("b", "sink", "lake", "main")), (("a", "b"),))
COMMAND = Command("c1", Verb.STOP, "jobs-1", "pipeline", "jobs", "me@h2", 5, 60_000)


def changed(value: bytes, **fields: Any) -> bytes:
    return json.dumps(json.loads(value) | fields).encode()


def test_records_come_back_as_they_were() -> None:
    assert decode_run_record(key_of(RECORD), encode_run(RECORD)) == RECORD
    assert decode_run_record(key_of(GRAPH), encode_graph(GRAPH)) == GRAPH
    assert decode_command(encode_command(COMMAND)) == COMMAND
    assert len(encode_run(RECORD)) < 1000


def test_run_is_forgotten_when_its_record_has_no_value() -> None:
    assert decode_run_record(b"jobs-1", None) == Forgotten("jobs-1")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"jobs-1", changed(encode_run(RECORD), v=2), "its version 2 is newer than 1"),
        (b"jobs-1", changed(encode_run(RECORD), v="1"), "it has no version"),
        (b"jobs-1", changed(encode_run(RECORD), kind="tank"), "it is of the kind 'tank', not 'run'"),
        (b"jobs-1", changed(encode_run(RECORD), state="flying"), "'flying' is not a valid State"),
        (b"jobs-1", changed(encode_run(RECORD), parts=[1]), "a field is wrong"),
        (b"jobs-1", changed(encode_run(RECORD), parts=[{"part": "x", "written": [1]}]), "a field is wrong"),
        (b"jobs-1", changed(encode_run(RECORD), name=None), "None is no text"),
        (b"jobs-1", changed(encode_run(RECORD), lag=float("inf")), "a field is wrong"),
        (b"jobs-2", encode_run(RECORD), "its key is 'jobs-2' and its run 'jobs-1'"),
        (b"jobs-1/graph", encode_run(RECORD), "not 'graph'"),
        (b"jobs-1", b"hello", "it is no JSON"),
        (b"jobs-1", b"[" * 100_000, "it is no JSON"),
        (b"jobs-1", b"[1]", "it is no JSON object"),
        (b"\xff", b"{}", "its key is no text"),
        (None, encode_run(RECORD), "it has no key"),
    ],
)
def test_record_is_ignored_with_a_reason_when_it_cannot_be_read(key: bytes | None, value: bytes, reason: str) -> None:
    ignored = decode_run_record(key, value)
    assert isinstance(ignored, Ignored)
    assert reason in ignored.reason


@pytest.mark.parametrize("fields", [{"run": "", "name": ""}, {"id": ""}, {"id": "x" * 1000}, {"verb": "explode"}])
def test_command_is_ignored_when_it_says_too_little_or_too_much(fields: dict[str, str]) -> None:
    assert isinstance(decode_command(changed(encode_command(COMMAND), **fields)), Ignored)
    assert isinstance(decode_command(None), Ignored)


def test_unknown_fields_do_no_harm_when_a_newer_run_adds_them() -> None:
    assert decode_run_record(b"jobs-1", changed(encode_run(RECORD), mood="good")) == RECORD


@given(st.binary(), st.binary())
def test_garbage_never_raises_when_it_is_read(key: bytes, value: bytes) -> None:
    decode_run_record(key, value)
    decode_command(value)


def test_record_stays_small_when_a_run_has_much_to_say() -> None:
    long = replace(RECORD, error="x" * 1_000_000)
    decoded = decode_run_record(b"jobs-1", encode_run(long))
    assert isinstance(decoded, RunRecord)
    assert len(decoded.error) == MAX_TEXT
    nodes = tuple(GraphNode(str(number), "step", "y" * 10_000) for number in range(1000))
    drawn = Graph("jobs-1", nodes, tuple((str(number), str(number + 1)) for number in range(999)))
    value = encode_graph(drawn)
    graph = decode_run_record(b"jobs-1/graph", value)
    assert isinstance(graph, Graph)
    assert (len(graph.nodes), len(graph.edges)) == (MAX_NODES, MAX_NODES - 1)
    assert len(value) < 60_000
