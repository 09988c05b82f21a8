"""The queries of Nexmark as applications of ours, by name. `java/NexmarkStreams.java` has the same ones.

q3   auctions of category 10 with their seller, of three states: a foreign key
q4   average of the best price per category: a table join, an aggregate, and a table grouped anew
q5   the auction with most bids in each of hopping windows
q7   the highest bid of each ten seconds
q8   persons who opened an auction within ten seconds
q11  bids per bidder and session; q12 per bidder and ten seconds of the clock; q13 with a global table
"""

from __future__ import annotations

from collections.abc import Callable

from bench.streams.events import AUCTION, BID, PERSON, SIDE
from penstock.streams import Settings, Streams, hopping, json, session, tumbling, within
from penstock.streams.builder.streams import Stream

BID_COLUMNS = json("id string, auction bigint, bidder string, price bigint, at bigint")
AUCTION_COLUMNS = json("id string, seller string, category int, expires bigint")
PERSON_COLUMNS = json("id string, name string, city string, state string")
NO_GRACE = "0 seconds"
OUT = "nexmark-out"


def bids(app: Streams, time: str | None = None) -> Stream:
    return app.stream(BID, value=BID_COLUMNS, time=time)


def q0(app: Streams) -> None:
    bids(app).to(OUT)


def q1(app: Streams) -> None:
    bids(app).map(price="price * 0.908").to(OUT)


def q2(app: Streams) -> None:
    bids(app).filter("auction % 123 = 0").select("auction", "price").to(OUT)


def q3(app: Streams) -> None:
    persons = app.table(PERSON, value=PERSON_COLUMNS).filter("state IN ('OR', 'ID', 'CA')")
    auctions = app.table(AUCTION, value=AUCTION_COLUMNS).filter("category = 10")
    auctions.join(persons, on="seller").select("name", "city", "state", "id").to(OUT)


def q4(app: Streams) -> None:
    auctions = app.table(AUCTION, value=AUCTION_COLUMNS).select("category", "expires")
    in_time = bids(app).join(auctions).filter("at <= expires")
    best = in_time.group_by("auction", "category").aggregate(price="max(price)")
    best.group_by("category").aggregate(price="avg(price)").to(OUT)


def q5(app: Streams) -> None:
    windows = hopping("10 seconds", every="2 seconds", grace=NO_GRACE)
    counts = bids(app).group_by("auction").windowed(windows, final=True).count()
    hot = counts.to_stream().group_by("window_start")
    hot.aggregate(auction="max_by(auction, count)", bids="max(count)").to(OUT)


def q7(app: Streams) -> None:
    highest = bids(app).group_by(all="1").windowed(tumbling("10 seconds", grace=NO_GRACE), final=True)
    highest.aggregate(price="max(price)", bidder="max_by(bidder, price)").to(OUT)


def q8(app: Streams) -> None:
    persons = app.stream(PERSON, value=PERSON_COLUMNS)
    sellers = app.stream(AUCTION, value=AUCTION_COLUMNS).select_key("seller")
    persons.join(sellers, window=within("10 seconds", grace=NO_GRACE)).select("name", "seller").to(OUT)


def q11(app: Streams) -> None:
    bids(app).group_by("bidder").windowed(session("10 seconds", grace=NO_GRACE), final=True).count().to(OUT)


def q12(app: Streams) -> None:
    by_clock = bids(app, time="current_timestamp()").group_by("bidder")
    by_clock.windowed(tumbling("10 seconds", grace=NO_GRACE)).count().to(OUT)


def q13(app: Streams) -> None:
    side = app.global_table(SIDE, value=json("side string"))
    bids(app).join(side, on="cast(auction % 1000 AS string)").to(OUT)


def count(app: Streams) -> None:
    """A count per key. `at` is the newest bid's time, from which latency is measured."""
    bids(app).group_by("bidder").aggregate(count="count(*)", at="max(at)").to(OUT)


def kept(app: Streams) -> None:
    """Every other bid, without state, with its time."""
    bids(app).filter("auction % 2 = 0").to(OUT)


QUERIES: dict[str, Callable[[Streams], None]] = {
    each.__name__: each for each in (q0, q1, q2, q3, q4, q5, q7, q8, q11, q12, q13, count)
}

REAL_TIME: dict[str, Callable[[Streams], None]] = {"count": count, "filter": kept}


def application(query: str, settings: Settings) -> Streams:
    app = Streams(f"nexmark-{query}", settings=settings)
    (QUERIES | REAL_TIME)[query](app)
    return app
