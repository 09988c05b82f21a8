"""An application: streams and tables of topics, what is made of them, and how it is drawn and run.

app = Streams("payments")
clicks = app.stream("clicks", value=json("user string, url string, at timestamp"), time="at", grace="10 minutes")
users = app.table("users", value=json("country string"))
(clicks.filter("url like '/pay%'").join(users, how="left").group_by("country")
       .windowed(tumbling("1 minute")).count(name="per-country").to("pay-per-country"))
print(app.describe())
app.run()
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.time.durations import Duration
from penstock.pipelines.pipeline import Settings, is_real_time
from penstock.streams.builder.draft import TopologyDraft
from penstock.streams.builder.streams import GlobalTable, Stream, Table
from penstock.streams.planner.description import describe
from penstock.streams.planner.realtime import real_time_text
from penstock.streams.planner.topology_plan import plan_topology
from penstock.streams.topology.durations import duration_ms
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, text
from penstock.streams.topology.names import several_topics
from penstock.streams.topology.nodes import Shape, Source, Topology
from penstock.streams.topology.topic_choice import check_format, refuse_pattern, topics_text

if TYPE_CHECKING:
    from penstock.streams.planner.plan import Plan

# Results a reader waits for; the rest of a micro-batch costs more than looking for rows does.
DEFAULT_SETTINGS = Settings(trigger="100 milliseconds")
AS_TEXT = text()


class Streams:
    def __init__(
        self,
        name: str,
        settings: Settings = DEFAULT_SETTINGS,
        dead_letters: str | None = None,
        *,
        fail_on_data_loss: bool = True,
    ) -> None:
        """`name` is the prefix of checkpoint, group and internal topics. `dead_letters` is a topic for records that do
        not decode; without it they fail the run. So do records that are gone before they were read, and topics that
        are, unless `fail_on_data_loss` is False: then it goes on with what is there."""
        self._draft = TopologyDraft(name, dead_letters)
        self._fails_on_data_loss = fail_on_data_loss
        self.settings = settings

    @property
    def name(self) -> str:
        return self._draft.application

    def stream(
        self,
        topic: str | Sequence[str] | re.Pattern[str],
        *,
        key: Format = AS_TEXT,
        value: Format,
        time: str | None = None,
        grace: Duration | None = None,
        start: str = "earliest",
        headers: bool = False,
        name: str | None = None,
    ) -> Stream:
        """A topic whose records each count, or several topics with the same formats: a list of them, merged, or a
        pattern, `re.compile("orders-.*")`, which also finds topics that are made later. `time` is a column, or SQL, of
        type timestamp; without it the record's timestamp. `grace` is for windows and joins without their own."""
        if not isinstance(topic, str | re.Pattern):
            streams = [
                self.stream(each, key=key, value=value, time=time, grace=grace, start=start, headers=headers)
                for each in several_topics(topic)
            ]
            return streams[0].merge(*streams[1:], name=name)
        if start not in ("earliest", "latest"):
            raise StreamsError(f"a stream does not start {start!r}", "It starts earliest or latest.")
        node = Source(
            self._draft.name_of_source(topic, name),
            (),
            topic,
            check_format(key, "key", topic),
            check_format(value, "value", topic),
            time=time,
            grace_ms=None if grace is None else duration_ms(grace, f"the grace of {topics_text(topic)}"),
            start=start,
            with_headers=headers,
            fail_on_data_loss=self._fails_on_data_loss,
        )
        return Stream(self._draft, self._draft.add(node), value.row_type)

    def table(
        self,
        topic: str,
        *,
        key: Format = AS_TEXT,
        value: Format,
        time: str | None = None,
        grace: Duration | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table:
        """A topic of which the last record of each key counts; one without a value deletes the key. `grace` is for
        windows over its changes, as a stream's."""
        refuse_pattern(topic, "a table")
        node = Source(
            self._draft.name_of_source(topic, name),
            (),
            topic,
            check_format(key, "key", topic),
            check_format(value, "value", topic),
            Shape.TABLE,
            time=time,
            grace_ms=None if grace is None else duration_ms(grace, f"the grace of {topic}"),
            fail_on_data_loss=self._fails_on_data_loss,
        )
        table = Table(self._draft, self._draft.add(node), value.row_type)
        return table if store is None else table.store(store)

    def global_table(
        self,
        topic: str,
        *,
        key: Format = AS_TEXT,
        value: Format,
        refresh: Duration = "1 second",
        name: str | None = None,
    ) -> GlobalTable:
        """A table that each task has whole, at most `refresh` old. It is only joined."""
        refuse_pattern(topic, "a global table")
        node = Source(
            self._draft.name_of_source(topic, name),
            (),
            topic,
            check_format(key, "key", topic),
            check_format(value, "value", topic),
            Shape.TABLE,
            is_global=True,
            refresh_ms=duration_ms(refresh, f"`refresh` of {topic}"),
        )
        return GlobalTable(self._draft, self._draft.add(node), value.row_type)

    def topology(self) -> Topology:
        return self._draft.topology()

    def plan(self) -> Plan:
        return plan_topology(self.topology())

    def describe(self) -> str:
        """A drawing: topics, nodes, Spark's queries, and where and why there is a topic between them."""
        plan = self.plan()
        return f"{describe(plan)}\n\n{real_time_text(plan)}" if is_real_time(self.settings) else describe(plan)

    def run(self, master: str | None = None, once: bool = False) -> None:
        """Until it is stopped; with `once`, until everything is done that was there at the start."""
        from penstock.streams.runtime.application import run

        run(self, master, once)

    def query(self, store: str, url: str | None = None, bootstrap: str | None = None) -> Any:
        """To ask for a store's rows: from a server, `penstock streams serve`, or from the changelog itself."""
        from penstock.streams.stores.client import open_store

        servers = None if url else bootstrap or self.settings.bootstrap_servers
        return open_store(self.name, store, url=url, bootstrap_servers=servers, settings=self.settings.kafka)
