"""Events of the Nexmark auction: persons, auctions and bids, 1 to 3 to 46, as JSON in three topics.

The same numbers give the same events. One event is one millisecond of the auction's time, which is the record's
timestamp; bids prefer a few hot auctions and bidders, as the benchmark's generator does.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

BASE_MS = 1_700_000_000_000
PERSONS_OF_50, AUCTIONS_OF_50 = 1, 3
HOT_AUCTIONS, HOT_BIDDERS, CATEGORIES = 10, 10, 5
AUCTION_LASTS_MS = 20_000
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
PERSON, AUCTION, BID, SIDE = "nexmark-person", "nexmark-auction", "nexmark-bid", "nexmark-side"
SIDE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Event:
    topic: str
    key: str
    value: bytes
    timestamp_ms: int


def events(count: int, seed: int = 17) -> Iterator[Event]:
    chance = random.Random(seed)
    persons = auctions = 0
    for number in range(count):
        at, place = BASE_MS + number, number % 50
        if place < PERSONS_OF_50:
            yield _event(PERSON, persons, at, name=f"p{persons}", city=f"c{persons % 20}", state=chance.choice(STATES))
            persons += 1
        elif place < PERSONS_OF_50 + AUCTIONS_OF_50:
            seller = _recent(chance, persons, HOT_BIDDERS)
            category = 10 + chance.randrange(CATEGORIES)
            expires = at + AUCTION_LASTS_MS
            yield _event(AUCTION, auctions, at, seller=str(seller), category=category, expires=expires)
            auctions += 1
        else:
            auction, bidder = _recent(chance, auctions, HOT_AUCTIONS), _recent(chance, persons, HOT_BIDDERS)
            price = chance.randrange(100, 10_000_000)
            yield _event(BID, auction, at, auction=auction, bidder=str(bidder), price=price, at=at)


def side_rows() -> Iterator[Event]:
    for number in range(SIDE_ROWS):
        yield Event(SIDE, str(number), json.dumps({"side": f"s{number}"}).encode(), BASE_MS)


def _event(topic: str, key: int, timestamp_ms: int, /, **value: Any) -> Event:
    return Event(topic, str(key), json.dumps({"id": str(key), **value}).encode(), timestamp_ms)


def _recent(chance: random.Random, count: int, hot: int) -> int:
    """Half of them one of a few that change slowly, else one of the last thousand."""
    if count == 0:
        return 0
    if chance.random() < 0.5:
        return max(0, count - 1 - (count - 1) % hot)
    return chance.randrange(max(0, count - 1000), count)
