"""TopologyTest itself: steps, lateness, formats, what does not decode."""

from __future__ import annotations

import json as json_text

import pytest
from pyspark.sql import SparkSession

from penstock.streams import Streams, StreamsError, TopologyTest, json, raw, registry, text, tumbling
from penstock.streams.topology_test import Record

MINUTE = 60_000


def clicks_per_minute() -> Streams:
    app = Streams("clicks")
    clicks = app.stream("clicks", value=json("country string"), grace="10 seconds")
    clicks.group_by("country").windowed(tumbling("1 minute"), final=True).count().to("per-minute")
    return app


def click(at_ms: int) -> Record:
    return Record(None, {"country": "DE"}, at_ms)


def test_a_window_is_written_once_and_late_rows_are_left_out_when_time_goes_on_in_steps(spark: SparkSession) -> None:
    with TopologyTest(clicks_per_minute(), spark, step=True) as test:
        test.pipe("clicks", [click(0), click(30_000)])
        assert test.read("per-minute") == []
        test.pipe("clicks", [click(MINUTE + 10_000)])  # the minute and its grace are over
        window = {"key": "DE", "start": 0, "end": MINUTE}
        (first,) = test.read("per-minute")
        assert (first.key, first.value["count"], first.timestamp) == (window, 2, 30_000)
        test.pipe("clicks", [click(40_000)])  # too late
        test.pipe("clicks", [click(5 * MINUTE)])
        assert {key: row["count"] for key, row in test.read_table("per-minute").items()} == {
            ("DE", 0, MINUTE): 2,
            ("DE", MINUTE, 2 * MINUTE): 1,
        }


def test_every_window_closes_and_nothing_is_late_when_rows_come_at_once(spark: SparkSession) -> None:
    with TopologyTest(clicks_per_minute(), spark) as test:
        test.pipe("clicks", [click(5 * MINUTE), click(0)])
        assert set(test.read_table("per-minute")) == {("DE", 0, MINUTE), ("DE", 5 * MINUTE, 6 * MINUTE)}


def test_a_row_sees_the_global_table_as_it_is_when_both_come_in_steps(spark: SparkSession) -> None:
    app = Streams("rates")
    rates = app.global_table("rates", value=json("rate double"))
    orders = app.stream("orders", value=json("currency string, price double"))
    joined = orders.join(rates, how="left", on="currency")
    joined.group_by("currency").aggregate(total="sum(price * rate)").to("totals")
    joined.select("rate").to("seen")
    with TopologyTest(app, spark, step=True) as test:
        order = {"currency": "EUR", "price": 10.0}
        test.pipe("orders", [order])
        test.pipe("rates", [Record("EUR", {"rate": 2.0})])
        test.pipe("orders", [order])
        test.pipe("rates", [Record("EUR", {"rate": 3.0})])
        test.pipe("orders", [order])
        assert [each.value["rate"] for each in test.read("seen")] == [None, 2.0, 3.0]
        assert [each.value["total"] for each in test.read("totals")] == [None, 20.0, 50.0]


USERS = json_text.dumps({"type": "record", "name": "User", "fields": [{"name": "country", "type": "string"}]})


def test_rows_keep_their_formats_when_a_registry_text_and_bytes_are_read_and_written(spark: SparkSession) -> None:
    app = Streams("formats")
    users = app.stream("users", value=registry())
    users.map(size="length(country)").to("sized", value=registry())
    users.select("upper(country) AS value").select_key("length(value)").to("texts", value=text())
    app.stream("blobs", key=raw(), value=raw(), headers=True).to("copies", value=raw())
    with TopologyTest(app, spark, schemas={"users-value": USERS}) as test:
        test.pipe("users", [{"_key": "ann", "_timestamp": 5, "country": "de"}])
        test.pipe("blobs", [Record(b"\xff", b"\x00", 6, (("trace", b"1"),))])
        assert test.read("sized") == [Record("ann", {"country": "de", "size": 2}, 5)]
        assert test.read("texts") == [Record(2, "DE", 5)]
        assert test.read("copies") == [Record(b"\xff", b"\x00", 6, (("trace", b"1"),))]
        with pytest.raises(StreamsError, match="does not fit the schema of users-value"):
            test.pipe("users", [{"country": 5}])


@pytest.mark.parametrize("step", [False, True])
def test_what_does_not_decode_is_a_dead_letter_when_there_is_a_topic_for_it(spark: SparkSession, step: bool) -> None:
    app = Streams("letters", dead_letters="dead")
    app.stream("numbers", value=json("n int")).filter("n > 1").to("large")
    with TopologyTest(app, spark, step=step) as test:
        test.pipe("numbers", [{"n": 2}, Record("k", b"{broken"), {"n": 1}])
        assert [each.value for each in test.read("large")] == [{"n": 2}]
        (letter,) = test.read("dead")
        assert (letter.key, letter.value) == (b"k", b"{broken")
        assert b"1" in dict(letter.headers).values()  # its offset


def test_a_row_is_refused_when_json_goes_on_behind_it_or_its_time_is_none(spark: SparkSession) -> None:
    """The rest of the text would be lost without a word, and milliseconds taken for seconds make all others late."""
    app = Streams("strict", dead_letters="dead")
    app.stream("seen", value=json("n int, at timestamp"), time="at").to("good")
    good = b'{"n": 1, "at": "2026-01-01T00:00:00Z"}'
    bad = [good + b" more", good + good, good + b"," + good, b'{"n": 2, "at": 1794900000000}', b"[]", b"1"]
    with TopologyTest(app, spark) as test:
        test.pipe("seen", [good, *bad, b" " + good + b"\n"])
        assert [each.value and each.value["n"] for each in test.read("good")] == [1, 1]
        letters = test.read("dead")
    assert [each.value for each in letters] == bad
    assert b"after the year 9999" in dict(letters[3].headers)["penstock.error"]


def test_the_record_is_named_when_it_does_not_decode_and_there_is_no_topic_for_it(spark: SparkSession) -> None:
    app = Streams("broken")
    app.stream("numbers", value=json("n int")).to("out")
    with TopologyTest(app, spark) as test:
        test.pipe("numbers", [b"{broken"])
        with pytest.raises(Exception, match=r"numbers.*0.*0"):
            test.read("out")
        with pytest.raises(StreamsError, match="writes no topic and keeps no store 'ou'"):
            test.read("ou")
