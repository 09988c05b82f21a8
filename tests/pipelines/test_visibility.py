"""Readers of committed records, and transactions that have not ended."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from confluent_kafka import Producer

from penstock.pipelines.sinks.visibility import await_visible
from tests.pipelines.committed import committed_values, make_topic, produce, unique


def go_on(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def test_what_was_written_is_seen_when_the_transaction_before_it_has_ended(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, settings = make_topic(bootstrap, "visible", 2), {"bootstrap.servers": bootstrap}
    await_visible(settings, topic, go_on)  # nothing was written, nothing is waited for
    open_one = Producer({**settings, "transactional.id": unique("open")})
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce(topic, "first", partition=1)
    assert open_one.flush(30) == 0
    produce(bootstrap, topic, "second", "third")
    with caplog.at_level(logging.WARNING):
        await_visible(settings, topic, go_on, patience_s=0.2)
    assert f"topic {topic}: readers do not see all of it after 0 s" in caplog.text
    asked: list[float] = []

    def give_up(seconds: float) -> bool:
        asked.append(seconds)
        return True

    await_visible(settings, topic, give_up)
    assert len(asked) == 1
    later = threading.Timer(1.0, open_one.commit_transaction, (30,))
    later.start()
    await_visible(settings, topic, go_on)
    assert committed_values(bootstrap, topic) == ["first", "second", "third"]
    later.join()
