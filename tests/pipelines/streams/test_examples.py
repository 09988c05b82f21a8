"""The classics, run on rows. What comes out is written out by hand."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.streams import Streams, TopologyTest
from penstock.streams.topology_test import Record

EXAMPLES = Path(__file__).parents[3] / "examples" / "streams"


def example(name: str) -> Streams:
    app: Any = runpy.run_path(str(EXAMPLES / f"{name}.py"))["app"]
    assert isinstance(app, Streams)
    return app


def at(time: str) -> str:
    return f"2026-05-01T{time}Z"


def test_the_table_has_the_newest_counts_when_words_come_in_lines(spark: SparkSession) -> None:
    with TopologyTest(example("word_count"), spark) as test:
        test.pipe("lines", ["To be, or not to be", "that is the question:", ""])
        expected = {"to": 2, "be": 2, "or": 1, "not": 1, "that": 1, "is": 1, "the": 1, "question": 1}
        assert test.read_table("word-counts") == {
            word: {"word": word, "count": count} for word, count in expected.items()
        }
        assert test.read_table("words") == test.read_table("word-counts")


def test_a_view_counts_where_its_user_lived_when_the_view_came(spark: SparkSession) -> None:
    with TopologyTest(example("page_views_by_region"), spark) as test:
        test.pipe(
            "users",
            [
                Record("ann", {"region": "EU"}, at("09:00:00")),
                Record("bob", {"region": "US"}, at("09:00:00")),
                Record("ann", {"region": "US"}, at("10:00:30")),
            ],
        )
        views = [
            ("ann", "10:00:10"),
            ("bob", "10:00:20"),
            ("ann", "10:00:40"),
            ("eve", "10:00:50"),
            ("bob", "10:01:00"),
        ]
        test.pipe("page-views", [{"_key": user, "page": "/", "at": at(time)} for user, time in views])
        found = {
            (row["region"], row["window_start"][11:19]): row["views"]
            for row in test.read_table("views-by-region").values()
        }
    assert found == {
        ("EU", "10:00:00"): 1,
        ("US", "10:00:00"): 2,
        ("unknown", "10:00:00"): 1,
        ("US", "10:01:00"): 1,
    }


def test_orders_are_told_apart_when_some_are_paid_in_time(spark: SparkSession) -> None:
    with TopologyTest(example("orders_and_payments"), spark) as test:
        orders = [("1", "10:00:00"), ("2", "10:00:00"), ("3", "10:30:00"), ("4", "10:45:00")]
        test.pipe("orders", [{"_key": key, "item": "pump", "price": 9.5, "at": at(time)} for key, time in orders])
        # In time to the millisecond, a millisecond late, before its order, never.
        payments = [("1", "11:00:00.000"), ("2", "11:00:00.001"), ("3", "10:29:59.999")]
        test.pipe("payments", [{"_key": key, "amount": 9.5, "at": at(time)} for key, time in payments])
        assert [(each.key, each.value["amount"]) for each in test.read("paid-orders")] == [("1", 9.5)]
        assert test.read_table("unpaid-orders") == {key: {"item": "pump", "price": 9.5} for key in ("2", "3", "4")}


def test_clicks_are_one_visit_when_less_than_the_gap_is_between_them(spark: SparkSession) -> None:
    with TopologyTest(example("sessions"), spark) as test:
        clicks = [
            ("ann", "/", "10:00:00"),
            ("ann", "/buy", "10:45:00"),
            ("ann", "/shop", "10:20:00"),
            ("ann", "/", "12:00:00"),
            ("bob", "/", "10:00:00"),
        ]
        test.pipe("clicks", [{"_key": user, "page": page, "at": at(time)} for user, page, time in clicks])
        visits = {
            (each.key["key"], each.value["window_start"][11:19], each.value["window_end"][11:19]): each.value
            for each in test.read("visits")
        }
    assert {visit: (row["clicks"], row["pages"]) for visit, row in visits.items()} == {
        ("ann", "10:00:00", "10:45:00"): (3, ["/", "/buy", "/shop"]),
        ("ann", "12:00:00", "12:00:00"): (1, ["/"]),
        ("bob", "10:00:00", "10:00:00"): (1, ["/"]),
    }


def test_the_most_seen_pages_are_listed_when_minutes_have_many(spark: SparkSession) -> None:
    seen = {"10:00": {"/a": 1, "/b": 4, "/c": 2, "/d": 3}, "10:01": {"/a": 2, "/b": 1}}
    with TopologyTest(example("top_n"), spark) as test:
        for minute, pages in seen.items():
            for page, views in pages.items():
                test.pipe("page-views", [{"page": page, "at": at(f"{minute}:{second:02}")} for second in range(views)])
        found = {row["minute"][11:16]: row["top"] for row in test.read_table("top-pages").values()}
    assert found == {"10:00": ["/b", "/d", "/c"], "10:01": ["/a", "/b"]}


def test_a_payment_is_there_once_when_its_sender_tries_again(spark: SparkSession) -> None:
    with TopologyTest(example("deduplication"), spark) as test:
        attempts = [("x", "10:00:00"), ("y", "10:00:01"), ("x", "10:00:02"), ("x", "10:59:00")]
        test.pipe("payment-attempts", [{"id": name, "amount": 1.0, "at": at(time)} for name, time in attempts])
        found = sorted((each.value["id"], each.value["at"][11:19]) for each in test.read("payments"))
    assert found == [("x", "10:00:00"), ("y", "10:00:01")]


def test_orders_follow_their_customers_when_either_changes(spark: SparkSession) -> None:
    with TopologyTest(example("customers_of_orders"), spark) as test:
        test.pipe(
            "orders",
            [
                Record("1", {"customer": "c1", "item": "pump"}),
                Record("2", {"customer": "c1", "item": "hose"}),
                Record("3", {"customer": "c2", "item": "pump"}),
                Record("4", {"customer": "c1", "item": "lamp"}),
            ],
        )
        test.pipe(
            "customers", [Record("c1", {"name": "Ann", "city": "Bonn"}), Record("c1", {"name": "Ann", "city": "Köln"})]
        )
        test.pipe("orders", [Record("4", None)])
        expected = {
            key: {"customer": "c1", "item": item, "name": "Ann", "city": "Köln"}
            for key, item in (("1", "pump"), ("2", "hose"))
        }
        assert test.read_table("orders-with-customers") == expected


def test_each_example_is_drawn_when_it_is_described() -> None:
    for path in sorted(EXAMPLES.glob("*.py")):
        app = example(path.stem)
        assert app.plan().topology.application in app.describe()
