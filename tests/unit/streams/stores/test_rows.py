"""How rows are asked for in Python: in parts and pages, whoever answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.config.types import ConfigError
from penstock.streams.stores.client import open_store
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.rows import MOST_KEYS, Row, ask_by_pages, ask_in_parts


def row(key: Any) -> Row:
    return Row(key, None, 0, 0, 0, {})


class Answers:
    """Refuses more than `most` rows at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked: list[int] = []

    def __call__(self, keys: Sequence[Any]) -> list[Row | None]:
        self.asked.append(len(keys))
        if len(keys) > self.most:
            raise StoreError(413, "too large")
        return [row(key) for key in keys]


def test_all_rows_come_in_their_order_when_one_answer_would_be_too_large() -> None:
    answers = Answers(most=3)
    assert [each and each.key for each in ask_in_parts(answers, range(8))] == list(range(8))
    assert answers.asked == [8, 4, 2, 2, 4, 2, 2]


def test_keys_are_parted_before_anybody_is_asked_when_there_are_more_than_a_request_takes() -> None:
    answers = Answers(most=MOST_KEYS)
    assert len(ask_in_parts(answers, range(MOST_KEYS + 1))) == MOST_KEYS + 1
    assert max(answers.asked) <= MOST_KEYS


def test_an_error_is_told_when_a_single_row_is_too_large_or_the_reason_is_another() -> None:
    with pytest.raises(StoreError):
        ask_in_parts(Answers(most=0), ["a"])


def test_pages_are_asked_for_until_the_limit_or_the_end_when_rows_are_many() -> None:
    def ask(size: int, after: int | None) -> tuple[list[Row], int | None]:
        first = 0 if after is None else after
        last = min(first + min(size, 2), 5)
        return [row(number) for number in range(first, last)], last if last < 5 else None

    assert [each.key for each in ask_by_pages(ask, None)] == [0, 1, 2, 3, 4]
    assert [each.key for each in ask_by_pages(ask, 3)] == [0, 1, 2]
    assert list(ask_by_pages(ask, 0)) == []


@pytest.mark.parametrize(("application", "servers"), [("../etc", "localhost:9092"), ("shop", "x:y:z"), ("shop", ",")])
def test_nobody_is_asked_when_the_application_or_the_brokers_cannot_be(application: str, servers: str) -> None:
    with pytest.raises(ConfigError):
        open_store(application, "counts", bootstrap_servers=servers)
