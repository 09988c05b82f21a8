"""What a reader of the topic makes of its records."""

from __future__ import annotations

from penstock.runs.overview import ENDED_KEPT, ENDED_KEPT_MS, LOST_KEPT_MS, Overview, plan_forgetting
from penstock.runs.rates import WINDOW_MS, RateWindow
from penstock.runs.records import Graph, GraphNode, RunRecord, State, encode_graph, encode_run, key_of

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


def take(
    overview: Overview,
    run: str,
    at_ms: int,
    state: State = State.RUNNING,
    name: str = "jobs",
    started_ms: int = 0,
    is_brokers_time: bool = True,
) -> None:
    record = RunRecord(
        run, "pipeline", name, state, started_ms=started_ms, heartbeat_every_ms=3000, lost_after_ms=20_000
    )
    overview.take(key_of(record), encode_run(record), at_ms, is_brokers_time)


def states(overview: Overview, now_ms: int = NOW_MS) -> dict[str, State]:
    return {name: run.state(now_ms) for name, run in overview.runs.items()}


def test_run_is_lost_when_its_heartbeat_is_overdue_and_it_has_not_ended() -> None:
    overview = Overview()
    take(overview, "fresh", NOW_MS - 19_000)
    take(overview, "silent", NOW_MS - 21_000, State.PAUSED)
    take(overview, "ended", NOW_MS - HOUR_MS, State.STOPPED)
    assert states(overview) == {"fresh": State.RUNNING, "silent": State.LOST, "ended": State.STOPPED}
    assert not overview.has_doubts(NOW_MS)  # the fresh one shows that the clock is right
    take(overview, "silent", NOW_MS)
    assert states(overview)["silent"] is State.RUNNING


def test_reader_has_doubts_when_every_heartbeat_looks_overdue() -> None:
    """An hour between the reader's clock and the broker's made every run look lost."""
    overview = Overview()
    take(overview, "only", NOW_MS - HOUR_MS)
    assert overview.has_doubts(NOW_MS)
    assert overview.longest_heartbeat_ms(NOW_MS) == 3000
    overview.is_listening = True
    take(overview, "only", NOW_MS - HOUR_MS + 3000)
    assert states(overview) == {"only": State.RUNNING}
    assert not overview.has_doubts(NOW_MS)


def test_reader_has_doubts_when_the_fresh_timestamps_are_not_the_brokers() -> None:
    overview = Overview()
    take(overview, "fresh", NOW_MS, is_brokers_time=False)
    take(overview, "other clock", NOW_MS - HOUR_MS, is_brokers_time=False)
    assert overview.has_doubts(NOW_MS)


def test_nothing_is_in_doubt_when_no_run_looks_lost() -> None:
    overview = Overview()
    assert not overview.has_doubts(NOW_MS)
    take(overview, "ended", 0, State.FAILED)
    assert not overview.has_doubts(NOW_MS)


def test_time_is_the_newest_records_when_the_readers_clock_is_behind() -> None:
    overview = Overview()
    take(overview, "silent", NOW_MS + HOUR_MS - 60_000)
    take(overview, "fresh", NOW_MS + HOUR_MS)
    assert states(overview, overview.brokers_time(NOW_MS)) == {"silent": State.LOST, "fresh": State.RUNNING}


def test_graph_and_run_go_when_they_are_given_tombstones() -> None:
    overview = Overview()
    graph = Graph("r", (GraphNode("a", "source", "topic a"),), ())
    take(overview, "r", NOW_MS)
    overview.take(key_of(graph), encode_graph(graph), NOW_MS, True)
    take(overview, "r", NOW_MS)
    assert overview.runs["r"].graph == graph
    overview.take(b"r/graph", None, NOW_MS, True)
    assert [run.graph for run in overview.runs.values()] == [None]
    overview.take(b"r", None, NOW_MS, True)
    assert overview.runs == {}


def test_reasons_are_counted_when_records_cannot_be_read() -> None:
    overview = Overview()
    for value in (b"x", b"y", b'{"v":9}'):
        overview.take(b"r", value, NOW_MS, True)
    assert overview.ignored == {"it is no JSON": 2, "its version 9 is newer than 1": 1}


def test_runs_are_found_by_id_first_and_then_by_name() -> None:
    overview = Overview()
    take(overview, "jobs-1", NOW_MS, started_ms=1)
    take(overview, "jobs-2", NOW_MS, started_ms=2)
    take(overview, "jobs", NOW_MS, name="an id like a name")
    assert [run.record.run for run in overview.named("jobs")] == ["jobs"]
    assert [run.record.run for run in overview.named("an id like a name")] == ["jobs"]
    overview.take(b"jobs", None, NOW_MS, True)
    assert [run.record.run for run in overview.named("jobs")] == ["jobs-2", "jobs-1"]
    assert overview.named("nobody") == []


def test_only_the_newest_ended_runs_of_a_name_are_kept() -> None:
    overview = Overview()
    for number in range(ENDED_KEPT + 2):
        take(overview, f"jobs-{number}", NOW_MS, State.STOPPED, started_ms=number)
    take(overview, "jobs-live", NOW_MS, started_ms=0)
    take(overview, "jobs-lost", NOW_MS - HOUR_MS, started_ms=0)
    take(overview, "other-old", NOW_MS - ENDED_KEPT_MS - 1, State.FAILED, name="other")
    take(overview, "more-long-lost", NOW_MS - max(LOST_KEPT_MS, ENDED_KEPT_MS) - 1, name="more")
    forgotten = set(plan_forgetting(overview, NOW_MS))
    runs = {"jobs-0", "jobs-1", "other-old", "more-long-lost"}
    assert forgotten == runs | {f"{run}/graph" for run in runs}


def test_rate_is_that_of_the_last_half_minute() -> None:
    rate = RateWindow()
    assert rate.per_second(100, 0) == 0.0
    assert rate.per_second(400, 3000) == 100.0
    for second in range(4, 40):
        last = rate.per_second(400, second * 1000)
    assert last == 0.0
    assert rate.per_second(50, 41_000) == 0.0  # started anew
    assert rate.per_second(150, 42_000) == 100.0
    assert WINDOW_MS == 30_000
