"""A run's status and its publisher, with a link that is a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pytest

from penstock.runs.lifecycle import Action, Fact
from penstock.runs.link import LinkError, ReceivedCommand
from penstock.runs.overview import Overview
from penstock.runs.publisher import HEARTBEAT_MS, Identity, RunPublisher, new_run_id
from penstock.runs.records import (
    Command,
    CommandOutcome,
    Graph,
    GraphNode,
    PartFigures,
    RunRecord,
    State,
    Verb,
    decode_run_record,
    encode_graph,
    encode_run,
    key_of,
)
from penstock.runs.status import ACKNOWLEDGEMENTS_KEPT, RunStatus
from penstock.testing.clock import ManualClock

IDENTITY = Identity("jobs-1", "pipeline", "jobs", "h1", 7, "1.0", 0)


@dataclass
class ListLink:
    """Keeps what is sent; commands are put into `commands`."""

    sent: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    commands: list[ReceivedCommand] = field(default_factory=list)
    refusals: list[LinkError] = field(default_factory=list)
    overview: Overview = field(default_factory=Overview)
    trouble: str = ""
    is_closed: bool = False

    def connect(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)

    def send(self, key: bytes, value: bytes | None) -> None:
        self.sent.append((key, value))

    def receive(self, timeout_s: float) -> list[ReceivedCommand]:
        received, self.commands = self.commands, []
        return received

    def read_overview(self) -> Overview:
        return self.overview

    def close(self, timeout_s: float) -> None:
        self.is_closed = True

    @property
    def records(self) -> list[RunRecord]:
        decoded = [decode_run_record(key, value) for key, value in self.sent]
        return [record for record in decoded if isinstance(record, RunRecord)]


@dataclass
class Seen:
    clock: ManualClock = field(default_factory=ManualClock)
    link: ListLink = field(default_factory=ListLink)
    done: list[Action] = field(default_factory=list)
    rows: int = 0

    def __post_init__(self) -> None:
        actions = {action: partial(self.done.append, action) for action in Action}
        self.status = RunStatus(actions, self.clock)
        self.graph = Graph("jobs-1", (), ())
        self.publisher = RunPublisher(IDENTITY, self.status, self.figures, self.graph, self.link, clock=self.clock)

    def figures(self) -> tuple[PartFigures, ...]:
        return (PartFigures("main", rows_in=self.rows, rows_out=2 * self.rows, lag=5),)

    def command(self, verb: Verb, command_id: str = "c1", age_ms: int = 0, run: str = "jobs-1") -> RunRecord:
        """The record after the command has come."""
        command = Command(command_id, verb, run=run, valid_for_ms=60_000, by="me")
        self.link.commands.append(ReceivedCommand(command, age_ms))
        self.publisher.turn(0)
        self.publisher.turn(0)
        return self.link.records[-1]


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_record_is_sent_with_every_heartbeat_and_at_once_after_a_change(seen: Seen) -> None:
    seen.publisher.turn(0)
    seen.publisher.turn(0)
    assert [record.state for record in seen.link.records] == [State.STARTING]
    seen.status.note(Fact.STARTED)
    seen.publisher.turn(0)
    assert [record.state for record in seen.link.records] == [State.STARTING, State.RUNNING]
    seen.rows = 300
    seen.clock.advance(HEARTBEAT_MS)
    seen.publisher.turn(0)
    last = seen.link.records[2]
    assert (last.rows_in_per_s, last.rows_out_per_s, last.lag) == (100.0, 200.0, 5)


def test_graph_is_sent_anew_when_the_run_draws_another(seen: Seen) -> None:
    drawn = Graph("jobs-1", (GraphNode("0", "step", "from_registry(orders-value, version 2)", ""),), ())
    for graph in (seen.graph, seen.graph, drawn, drawn):
        seen.publisher.draw(graph)
        seen.publisher.turn(0)
    assert [sent for sent in seen.link.sent if sent[0] == key_of(drawn)] == [
        (key_of(graph), encode_graph(graph)) for graph in (seen.graph, drawn)
    ]


def test_command_is_refused_with_the_reason_when_the_run_never_obeys_it() -> None:
    status = RunStatus({}, ManualClock(), {Verb.PAUSE: "it cannot be held"})
    status.note(Fact.STARTED)
    command = Command("c1", Verb.PAUSE, run="jobs-1", valid_for_ms=60_000, by="me")
    for decision in (status.ask(Verb.PAUSE), status.obey(command, 0)):
        assert decision is not None
        assert (decision.state, decision.outcome, decision.text) == (
            State.RUNNING,
            CommandOutcome.REFUSED,
            "it cannot be held",
        )
    assert status.view.state is State.RUNNING


def test_command_is_acknowledged_when_accepted_and_when_done(seen: Seen) -> None:
    seen.status.note(Fact.STARTED)
    record = seen.command(Verb.PAUSE)
    assert (record.state, [each.outcome for each in record.acknowledgements]) == (
        State.PAUSING,
        [CommandOutcome.ACCEPTED],
    )
    seen.status.note(Fact.RESTED)
    seen.publisher.turn(0)
    record = seen.link.records[-1]
    assert (record.state, [each.outcome for each in record.acknowledgements]) == (State.PAUSED, [CommandOutcome.DONE])
    assert seen.done == [Action.HOLD]


def test_command_is_obeyed_once_when_it_is_delivered_twice(seen: Seen) -> None:
    seen.status.note(Fact.STARTED)
    seen.command(Verb.PAUSE, "c1")
    seen.command(Verb.RESUME, "c2")
    record = seen.command(Verb.PAUSE, "c1")
    assert record.state is State.RUNNING
    assert seen.done == [Action.HOLD, Action.RELEASE]
    assert [each.command for each in record.acknowledgements] == ["c1", "c2"]
    assert [each.outcome for each in record.acknowledgements] == [CommandOutcome.OVERTAKEN, CommandOutcome.DONE]


def test_command_is_answered_and_not_obeyed_when_it_comes_too_late(seen: Seen) -> None:
    seen.status.note(Fact.STARTED)
    record = seen.command(Verb.STOP, age_ms=61_000)
    assert record.state is State.RUNNING
    assert [each.outcome for each in record.acknowledgements] == [CommandOutcome.EXPIRED]
    assert seen.done == []


def test_command_is_not_answered_when_it_is_for_another_run(seen: Seen) -> None:
    assert seen.command(Verb.STOP, run="jobs-0").acknowledgements == ()
    assert seen.done == []


def test_few_acknowledgements_are_kept_when_many_commands_come(seen: Seen) -> None:
    for number in range(ACKNOWLEDGEMENTS_KEPT + 5):
        record = seen.command(Verb.RESUME, f"c{number}")
    assert len(record.acknowledgements) == ACKNOWLEDGEMENTS_KEPT
    assert record.acknowledgements[-1].command == f"c{ACKNOWLEDGEMENTS_KEPT + 4}"


def test_restarts_are_counted_and_the_error_is_kept(seen: Seen) -> None:
    seen.status.note(Fact.STARTED)
    seen.status.ask(Verb.RESTART)
    seen.status.note(Fact.STARTED)
    seen.status.note(Fact.FAILED, "the disk is full")
    assert (seen.status.view.restarts, seen.status.view.error) == (1, "the disk is full")
    assert seen.status.is_ended


def test_last_record_says_how_the_run_ended_when_the_publisher_is_closed(seen: Seen) -> None:
    for number in range(12):
        old = RunRecord(f"jobs-old-{number}", "pipeline", "jobs", State.STOPPED, started_ms=number)
        seen.link.overview.take(key_of(old), encode_run(old), seen.clock.now_ms(), True)
    seen.publisher.start()
    seen.status.note(Fact.STARTED)
    seen.status.note(Fact.ENDED)
    seen.publisher.close()
    assert seen.link.records[-1].state is State.STOPPED
    assert seen.link.is_closed
    assert [key for key, value in seen.link.sent if value is None][::2] == [b"jobs-old-1", b"jobs-old-0"]
    assert (b"jobs-1/graph") in dict(seen.link.sent)


def test_one_warning_is_logged_when_the_cluster_refuses(seen: Seen, caplog: pytest.LogCaptureFixture) -> None:
    seen.link.refusals = [LinkError("no rights", is_final=True)]
    seen.publisher.start()
    seen.publisher.close()
    assert seen.link.sent == []
    (line,) = [record.getMessage() for record in caplog.records if record.name == "penstock.runs.publisher"]
    assert line == "the run jobs-1 cannot be seen by others, and goes on: no rights"


def test_trouble_is_told_once_when_it_lasts(seen: Seen, caplog: pytest.LogCaptureFixture) -> None:
    for trouble in ("", "timed out", "all brokers down", "timed out", "", "timed out"):
        seen.link.trouble = trouble
        seen.publisher.turn(0)
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2


def test_run_ids_differ_when_the_name_is_the_same() -> None:
    assert new_run_id("jobs", lambda size: "ab" * size) == "jobs-abababab"
    assert new_run_id("jobs") != new_run_id("jobs")
