"""What an author cannot write, and what is said to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from penstock.streams import Processor, Streams, StreamsError, json, registry, session, sliding, text, tumbling, within
from tests.unit.streams.clicks import Clicks, by_hand, together


class Timed(Processor):
    columns = "user string"

    def on_timer(self, key: Any, at: Any, context: Any) -> Any:
        return None


# Typed as loosely as authors who do not check types.
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a name twice": (lambda _: [_.clicks.filter("true", name="a"), _.clicks.peek(by_hand, name="a")], "called 'a'"),
    "a name of ours": (lambda _: _.clicks.filter("true", name="dead-letters"), "a query of the application"),
    "a bad name": (lambda _: _.clicks.filter("true", name="a b"), "'a b' cannot be"),
    "a long name": (lambda _: _.clicks.filter("true", name="a" * 240), "too long"),
    "a bad topic": (lambda _: _.clicks.to("a/b"), "'a/b' cannot be the name of a topic"),
    "two stores": (lambda _: [_.users.store("s"), _.users.store("s")], "two stores are called 's'"),
    "two sinks of a name": (lambda _: [_.clicks.to("a", name="end"), _.clicks.to("b", name="end")], "called 'end'"),
    "several topics, one of them twice": (lambda _: _.app.stream(["x", "x"], value=text()), "x is named twice"),
    "sessions that SQL tells early": (
        lambda _: _.clicks.group_by_key().windowed(session("1 hour"), final=False).count(),
        "tell a session once",
    ),
    "flags beside a pattern": (
        lambda _: _.app.stream(re.compile("x.*", re.IGNORECASE), value=text()),
        "the pattern x\\.\\* has flags beside its text",
    ),
    "a pattern of bytes": (lambda _: _.app.stream(re.compile(b"x.*"), value=text()), "cannot be a pattern of topics"),
    "a table of a pattern": (lambda _: _.app.table(re.compile("x.*"), value=text()), "a table is one topic"),
    "a global table of a pattern": (
        lambda _: _.app.global_table(re.compile("x.*"), value=text()),
        "a global table is one topic",
    ),
    "a pattern's own subjects": (
        lambda _: _.app.stream(re.compile("x.*"), value=registry()),
        "the value of topics like x\\.\\* is of a registry",
    ),
    "no topics": (lambda _: _.app.stream([], value=text()), "are not several topics"),
    "a partition that is no expression": (lambda _: _.clicks.to("x", partition=by_hand), "no expression"),
    "a topic that is no expression": (lambda _: _.clicks.to("x", topic_of=by_hand), "no expression"),
    "a subtractor that is no function": (
        lambda _: _.users.group_by("country").fold(together, "n int", subtract="n - 1"),
        "`subtract` of fold\\(\\) takes a function",
    ),
    "a bad start": (lambda _: _.app.stream("x", value=text(), start="now"), "does not start 'now'"),
    "no columns to read": (lambda _: _.app.stream("x", value=json()), "the value of x is read as JSON"),
    "a function as condition": (lambda _: _.clicks.filter(by_hand), "no expression"),
    "an expression as function": (lambda _: _.clicks.map_rows("upper(user)", "user string"), "takes a function"),
    "a row type that is none": (lambda _: _.clicks.map_rows(by_hand, "user string", takes=int), "no dataclass"),
    "no columns out": (lambda _: _.clicks.map_rows(by_hand, ""), "needs the columns"),
    "an empty map": (lambda _: _.clicks.map(), "got no columns"),
    "an empty select": (lambda _: _.clicks.select(), "got no columns"),
    "our columns": (lambda _: _.clicks.map(_key="user"), "every row has one of ours"),
    "an empty split": (lambda _: _.clicks.split(), "no conditions"),
    "a split's rest twice": (lambda _: _.clicks.split(rest="a", a="true"), "two streams 'a'"),
    "a merge with nothing": (lambda _: _.clicks.merge(), "no other stream"),
    "a merge with a table": (lambda _: _.clicks.merge(_.users), "takes streams, not a Table"),
    "negative partitions": (lambda _: _.clicks.repartition("a", -1), "no number of partitions"),
    "a group by nothing": (lambda _: _.clicks.group_by(), "nothing to group by"),
    "a table by nothing": (lambda _: _.users.group_by(), "nothing to group by"),
    "a group without a name": (lambda _: _.clicks.group_by("date(at)"), "needs a name"),
    "an empty aggregate": (lambda _: _.clicks.group_by_key().aggregate(), "got no columns"),
    "a column twice": (lambda _: _.clicks.group_by("user").aggregate(user="max(user)"), "two columns 'user'"),
    "no window": (lambda _: _.clicks.group_by_key().windowed("1 minute"), "takes a window"),
    "a join's window": (lambda _: _.clicks.group_by_key().windowed(within("1 minute")), "takes a window"),
    "a sliding median": (
        lambda _: _.clicks.group_by_key().windowed(sliding("1 minute")).aggregate(m="median(x)"),
        "cannot compute 'median",
    ),
    "a table's median": (lambda _: _.users.group_by("country").aggregate(m="median(x)"), "cannot compute 'median"),
    "a table's new key": (lambda _: _.users.select_key("country"), "cannot be chosen anew"),
    "streams without a window": (lambda _: _.clicks.join(_.clicks), "needs a window"),
    "streams on something": (lambda _: _.clicks.join(_.clicks, window=within("1 s"), on="user"), "by their keys"),
    "a table's window": (lambda _: _.clicks.join(_.users, window=within("1 s")), "only a join of two streams"),
    "a table on something": (lambda _: _.clicks.join(_.users, on="user"), "has no `on`"),
    "an outer table": (lambda _: _.clicks.join(_.users, "outer"), "does not join a table 'outer'"),
    "a foreign outer": (lambda _: _.users.join(_.users, "outer", on="country"), "not 'outer'"),
    "a table with a stream": (lambda _: _.users.join(_.clicks), "a table does not join a stream"),
    "a table with a global one": (lambda _: _.users.join(_.rates), "a table does not join a global table"),
    "a join with text": (lambda _: _.clicks.join("users"), "takes a stream or a table"),
    "two applications": (lambda _: _.clicks.join(Clicks("other").users), "'other' cannot meet those of 'payments'"),
    "a merge of two": (lambda _: _.clicks.merge(Clicks("other").clicks), "cannot meet"),
    "cogroups by others": (
        lambda _: _.clicks.group_by("user").cogroup(n="count(*)").cogroup(_.clicks.group_by_key(), m="count(*)"),
        "grouped by",
    ),
    "a cogroup's column twice": (
        lambda _: (
            _.clicks.group_by_key().cogroup(n="count(*)").cogroup(_.clicks.group_by_key(), n="count(*)").aggregate()
        ),
        "two columns 'n'",
    ),
    "an object that processes": (lambda _: _.clicks.process(Timed()), "takes a class"),
    "a processor without columns": (lambda _: _.clicks.process(Processor), "needs the columns"),
    "a format that is none": (lambda _: _.clicks.to("x", value="json"), "no format"),
    "a reduce of text": (lambda _: _.clicks.group_by_key().reduce("x", "user string"), "takes a function"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_author_is_told_when_something_cannot_be_written(case: str) -> None:
    write, said = REFUSED[case]
    with pytest.raises(StreamsError, match=said) as refused:
        write(Clicks())
    assert refused.value.message


WITHOUT_GRACE: dict[str, Callable[[Clicks], Any]] = {
    "a window": lambda _: _.clicks.group_by_key().windowed(tumbling("1 minute")).count(),
    "a folded window": lambda _: _.clicks.group_by_key().windowed(tumbling("1 minute")).fold(together, "n int"),
    "a join": lambda _: _.clicks.join(_.clicks, window=within("1 minute")),
    "timers": lambda _: _.clicks.process(Timed),
}


@pytest.mark.parametrize("case", WITHOUT_GRACE)
def test_grace_is_asked_for_when_nobody_says_it(case: str) -> None:
    with pytest.raises(StreamsError, match="waits for late rows") as refused:
        WITHOUT_GRACE[case](Clicks(grace=None))
    assert "app.stream(..., grace=" in refused.value.hint
    WITHOUT_GRACE[case](Clicks())


@pytest.mark.parametrize("name", ["", "a b", "..", "x" * 101])
def test_an_application_is_refused_when_its_name_cannot_be_a_topics(name: str) -> None:
    with pytest.raises(StreamsError):
        Streams(name)


def test_rows_in_a_circle_are_refused_when_a_topic_is_read_and_written() -> None:
    given = Clicks()
    given.clicks.to("middle")
    middle = given.app.stream("middle", value=json("user string"))
    middle.to("end")
    given.app.topology()
    middle.to("clicks")
    with pytest.raises(StreamsError, match="clicks -> middle -> clicks"):
        given.app.topology()


def test_rows_in_a_circle_are_refused_when_a_pattern_finds_what_comes_of_it() -> None:
    given = Clicks()
    orders = given.app.stream(re.compile("orders-.*"), value=text())
    given.clicks.to("orders-clicked")  # its own, but nothing goes round
    orders.to("total-orders")
    given.app.plan()
    orders.to("orders-all")
    with pytest.raises(StreamsError, match=r"in a circle: orders-all -> topics like orders-\.\* -> orders-all"):
        given.app.plan()


def test_a_pattern_is_refused_when_it_finds_internal_topics_or_dead_letters() -> None:
    app = Streams("orders", dead_letters="dead-orders")
    app.stream(re.compile("orders-.*"), value=text()).to("all")
    app.plan()  # it has no topics of its own
    app.stream("clicks", value=text()).group_by_key().count(name="per-user")
    with pytest.raises(StreamsError, match=r"from-pattern-1 reads .* and would read orders-per-user-changelog"):
        app.plan()
    app.stream(re.compile(".*-orders"), value=text()).to("more")
    with pytest.raises(StreamsError, match="dead-orders takes the records that do not decode"):
        app.plan()


def test_an_internal_topic_is_refused_when_an_author_writes_it() -> None:
    given = Clicks()
    given.clicks.to("payments-x-changelog")
    with pytest.raises(StreamsError, match="named as an internal topic"):
        given.app.topology()


def test_dead_letters_are_refused_when_the_application_reads_them() -> None:
    with pytest.raises(StreamsError, match="takes the records that do not decode"):
        Clicks(dead_letters="users").app.topology()


def test_a_store_is_refused_when_another_node_has_its_name() -> None:
    given = Clicks()
    given.clicks.group_by_key().count(name="n")
    given.clicks.filter("true", name="users")
    given.users.store("users")
    with pytest.raises(StreamsError, match="the name of another node, a Filter"):
        given.app.topology()


def test_a_topic_that_a_reset_would_delete_is_refused_when_it_is_read_or_takes_dead_letters() -> None:
    app = Streams("shop", dead_letters="shop-users-changelog")
    app.table("users", value=json("name string"), store="users")
    with pytest.raises(StreamsError, match="dead_letters writes shop-users-changelog, which is named as an internal"):
        app.topology()
    app = Streams("shop")
    app.table("shop-users-changelog", value=json("name string"), store="users")
    with pytest.raises(
        StreamsError, match="reads shop-users-changelog, which is named as an internal topic of its own"
    ):
        app.topology()


def test_a_topic_of_another_application_is_read_when_its_name_begins_with_ours() -> None:
    app = Streams("shop")
    app.table("shop-eu-users-changelog", value=json("name string"), store="users")  # of shop-eu
    assert len(app.topology().nodes) == 2
