"""The applications of the cases, as people write them with penstock.streams; java/ has the same in Kafka Streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock.streams import (
    GlobalTable,
    Stream,
    Streams,
    Table,
    hopping,
    json,
    session,
    sliding,
    tumbling,
    within,
)
from penstock.streams.topology.windows import JoinWindow, Window
from tests.interop.streams.case_files import Case

DAY = "1 day"
WITH_REFERENCE = "v string, ref string"


class Topics:
    """The topics of a case, in an application."""

    def __init__(self, app: Streams, case: Case) -> None:
        self.app, self.case = app, case

    def stream(self, topic: str, columns: str = "v string") -> Stream:
        return self.app.stream(self.case.topic(topic), value=json(columns))

    def table(self, topic: str, columns: str = "v string") -> Table:
        return self.app.table(self.case.topic(topic), value=json(columns))

    def global_table(self, topic: str, columns: str = "v string") -> GlobalTable:
        return self.app.global_table(self.case.topic(topic), value=json(columns))

    def write(self, topic: str, rows: Stream | Table) -> None:
        rows.to(self.case.topic(topic))


def build(case: Case, app: Streams | None = None) -> Streams:
    """An application that has the case's topology, or the one given with the case's topology added."""
    app = app or Streams(case.name)
    APPLICATIONS[case.name](Topics(app, case))
    return app


def join_streams(window: JoinWindow) -> Callable[[Topics], None]:
    def application(topics: Topics) -> None:
        left, right = topics.stream("left"), topics.stream("right")
        topics.write("inner", left.join(right, window=window))
        topics.write("left-join", left.join(right, how="left", window=window))
        topics.write("outer", left.join(right, how="outer", window=window))

    return application


def join_streams_then_window(topics: Topics) -> None:
    pairs = topics.stream("left").join(topics.stream("right"), window=within("5 seconds", grace="1 minute"))
    topics.write("out", pairs.group_by_key().windowed(tumbling("10 seconds", grace="1 minute")).count())


def join_stream_with_table(topics: Topics) -> None:
    left, right = topics.stream("left"), topics.table("right")
    topics.write("inner", left.join(right))
    topics.write("left-join", left.join(right, how="left"))


def join_stream_with_global_table(topics: Topics) -> None:
    left, right = topics.stream("left", WITH_REFERENCE), topics.global_table("right")
    topics.write("inner", left.join(right, on="ref"))
    topics.write("left-join", left.join(right, how="left", on="ref"))


def count_views_by_region(topics: Topics) -> None:
    views = topics.stream("views", "page string").join(topics.table("users", "region string"))
    topics.write("out", views.group_by("region").windowed(tumbling("10 seconds", grace=DAY)).count())


def join_tables(topics: Topics) -> None:
    left, right = topics.table("left"), topics.table("right")
    topics.write("inner", left.join(right))
    topics.write("left-join", left.join(right, how="left"))
    topics.write("outer", left.join(right, how="outer"))


def join_by_foreign_key(topics: Topics) -> None:
    left, right = topics.table("left", WITH_REFERENCE), topics.table("right")
    topics.write("inner", left.join(right, on="ref"))
    topics.write("left-join", left.join(right, how="left", on="ref"))


def group_nulls(topics: Topics) -> None:
    rows = topics.stream("in", "g string, n bigint")
    topics.write("by-key", rows.group_by_key().count())
    topics.write("by-group", rows.group_by("g").aggregate(count="count(*)", total="sum(n)"))
    topics.write("as-table", rows.to_table())


def window_null_values(topics: Topics) -> None:
    rows = topics.stream("in", "n bigint").group_by_key()
    topics.write("tumbling", rows.windowed(tumbling("10 seconds", grace=DAY)).count())
    topics.write("session", rows.windowed(session("10 seconds", grace=DAY)).count())


def added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    numbers = [row["n"] for row in (one, other) if row["n"] is not None]
    return {"n": sum(numbers) if numbers else None, "s": one["s"] + other["s"]}


def written_down(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {"text": state["text"] + row["s"] + ";"}


def aggregate(topics: Topics) -> None:
    rows = topics.stream("in", "n bigint, s string").group_by_key()
    topics.write("counted", rows.count())
    topics.write("reduced", rows.reduce(added, "n bigint, s string"))
    topics.write("aggregated", rows.aggregate(total="sum(n)", largest="max(n)", smallest="min(n)"))
    topics.write("folded", rows.fold(written_down, "text string", initial={"text": ""}))


def cogroup(topics: Topics) -> None:
    clicks = topics.stream("clicks", "url string").group_by_key()
    orders = topics.stream("orders", "amount bigint").group_by_key()
    both = clicks.cogroup(clicks="count(*)").cogroup(orders, spent="sum(amount)")
    topics.write("out", both.aggregate())
    topics.write("windowed", both.windowed(tumbling("10 seconds", grace=DAY)).aggregate())


def copy_table(topics: Topics) -> None:
    rows = topics.table("in")
    topics.write("copy", rows)
    topics.write("mapped", rows.select("concat(v, '!') AS w"))


def filter_table(topics: Topics) -> None:
    rows = topics.table("in", "n bigint")
    kept = rows.filter("n >= 10")
    topics.write("kept", kept)
    topics.write("others", rows.filter_not("n >= 10"))
    topics.write("joined", rows.join(kept))


def group_table(topics: Topics) -> None:
    groups = topics.table("in", "g string, n bigint").group_by("g")
    topics.write("counted", groups.count())
    topics.write("summed", groups.aggregate(total="sum(n)"))
    topics.write(
        "folded",
        groups.fold(squares_added, "squares bigint", subtract=squares_taken_back, initial={"squares": 0}),
    )


def squares_added(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {"squares": state["squares"] + row["n"] ** 2}


def squares_taken_back(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any] | None:
    left = state["squares"] - row["n"] ** 2
    return {"squares": left} if left else None


def stream_to_table(topics: Topics) -> None:
    table = topics.stream("in").to_table()
    topics.write("as-table", table)
    topics.write("joined", table.join(topics.table("other")))


def chain_tables(topics: Topics) -> None:
    counts = topics.stream("in", "n bigint").group_by_key().count()
    others = topics.stream("other", "n bigint").group_by_key().count()
    topics.write("joined", counts.join(others, how="outer"))
    topics.write("histogram", counts.group_by("count").count(into="keys"))


def count_windows(window: Window) -> Callable[[Topics], None]:
    def application(topics: Topics) -> None:
        rows = topics.stream("in", "n bigint").group_by_key().windowed(window)
        topics.write("counted", rows.aggregate(count="count(*)", total="sum(n)"))

    return application


def summed(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {"n": one["n"] + other["n"]}


def count_and_reduce_windows(window: Window) -> Callable[[Topics], None]:
    def application(topics: Topics) -> None:
        rows = topics.stream("in", "n bigint").group_by_key().windowed(window)
        topics.write("counted", rows.aggregate(count="count(*)", total="sum(n)"))
        topics.write("reduced", rows.reduce(summed, "n bigint"))

    return application


def updates_and_final(window: Window) -> Callable[[Topics], None]:
    def application(topics: Topics) -> None:
        rows = topics.stream("in", "n bigint").group_by_key()
        topics.write("updates", rows.windowed(window).count())
        topics.write("final", rows.windowed(window, final=True).count())

    return application


def final_sessions(topics: Topics) -> None:
    rows = topics.stream("in", "n bigint").group_by_key()
    topics.write("final", rows.windowed(session("10 seconds", grace="5 seconds")).count())


def late_sessions(topics: Topics) -> None:
    final_sessions(topics)
    rows = topics.stream("in", "n bigint").group_by_key()
    sessions = session("10 seconds", grace="5 seconds")
    topics.write("reduced", rows.windowed(sessions).reduce(summed, "n bigint"))
    topics.write("updates", rows.windowed(sessions, final=False).reduce(summed, "n bigint"))


def without_state(topics: Topics) -> None:
    rows = topics.stream("in", "n bigint, text string")
    topics.write("filtered", rows.filter("n > 2"))
    topics.write("mapped", rows.map(double="n * 2"))
    topics.write("words", rows.flat_map("split(text, ' ')", into="word"))
    topics.write("rekeyed", rows.select_key("text"))
    topics.write("merged", rows.merge(topics.stream("other", "n bigint, text string")))
    for name, part in rows.split(small="n < 3", even="n % 2 = 0").items():
        topics.write(name, part)


def null_values(topics: Topics) -> None:
    rows = topics.stream("in", "n bigint")
    topics.write("copy", rows)
    topics.write("merged", rows.merge(topics.stream("other", "n bigint")))


def several_topics(topics: Topics) -> None:
    rows = topics.app.stream([topics.case.topic(name) for name in ("one", "two", "three")], value=json("n bigint"))
    topics.write("copy", rows)
    topics.write("counted", rows.group_by_key().count())


def topic_pattern(topics: Topics) -> None:
    rows = topics.app.stream(re.compile(re.escape(topics.case.topic("in-")) + ".*"), value=json("n bigint"))
    topics.write("copy", rows)
    topics.write("counted", rows.merge(topics.stream("other", "n bigint")).group_by_key().count())


def chosen_topic(topics: Topics) -> None:
    odd, even = (topics.case.topic(name) for name in ("odd", "even"))
    chosen = f"CASE n % 2 WHEN 0 THEN '{even}' WHEN 1 THEN '{odd}' END"
    topics.stream("in", "n bigint").to(topics.case.topic("rest"), topic_of=chosen)


def repartition(topics: Topics) -> None:
    through = topics.stream("in", "n bigint, g string").select_key("g").repartition("by-g")
    topics.write("through", through)
    topics.write("counted", through.group_by_key().count())
    topics.write("windowed", through.group_by_key().windowed(tumbling("10 seconds", grace=DAY)).count())


TEN, FIVE = "10 seconds", "5 seconds"

APPLICATIONS: Mapping[str, Callable[[Topics], None]] = {
    "stream-stream-join": join_streams(within("15 seconds", grace="0 seconds")),
    "stream-stream-join-bounds": join_streams(within(TEN, before=FIVE, grace=DAY)),
    "stream-stream-join-nulls": join_streams(within(TEN, grace="1 second")),
    "stream-stream-join-late": join_streams(within(TEN, grace=FIVE)),
    "stream-stream-join-too-late": join_streams(within(TEN, grace=FIVE)),
    "join-then-window": join_streams_then_window,
    "stream-table-join": join_stream_with_table,
    "stream-table-join-order": join_stream_with_table,
    "stream-global-table-join": join_stream_with_global_table,
    "table-join-windowed-count": count_views_by_region,
    "table-table-join": join_tables,
    "foreign-key-join": join_by_foreign_key,
    "foreign-key-join-many": join_by_foreign_key,
    "grouping-nulls": group_nulls,
    "windowed-null-values": window_null_values,
    "aggregates": aggregate,
    "cogroup": cogroup,
    "table-tombstones": copy_table,
    "table-filter": filter_table,
    "table-group-by": group_table,
    "stream-to-table": stream_to_table,
    "chained": chain_tables,
    "tumbling": count_and_reduce_windows(tumbling(TEN, grace=DAY)),
    "hopping": count_windows(hopping(TEN, every="4 seconds", grace=DAY)),
    "sliding": count_windows(sliding(TEN, grace=DAY)),
    "session": count_and_reduce_windows(session(TEN, grace=DAY)),
    "tumbling-grace": updates_and_final(tumbling(TEN, grace=FIVE)),
    "idle-partition": updates_and_final(tumbling(TEN, grace=FIVE)),
    "hopping-grace": updates_and_final(hopping(TEN, every=FIVE, grace="2 seconds")),
    "sliding-grace": updates_and_final(sliding(TEN, grace=FIVE)),
    "session-grace": final_sessions,
    "session-grace-exact": final_sessions,
    "session-late-inside": late_sessions,
    "stateless": without_state,
    "stateless-null-values": null_values,
    "several-topics": several_topics,
    "topic-pattern": topic_pattern,
    "chosen-topic": chosen_topic,
    "repartition": repartition,
}
