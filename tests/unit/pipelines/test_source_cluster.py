"""What the driver makes of what librdkafka hears while it asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError

from penstock.pipelines.source.cluster import FoundTopic, SourceCluster

# Long after the first look at what was heard, and long before a refusal is final.
ANSWER_AFTER_S = 0.1


class LateAdmin:
    """Hears of a refused login first; then another server answers, which knows the topic `orders`."""

    def __init__(self, hear: Callable[[KafkaError], None]) -> None:
        self._hear = hear

    def poll(self, timeout_s: float) -> None:
        self._hear(KafkaError(KafkaError._AUTHENTICATION, "sasl://a:1: invalid credentials"))

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        threading.Timer(ANSWER_AFTER_S, answer.set_result, [SimpleNamespace(authorized_operations=None)]).start()
        return {"orders": answer}


def test_an_answer_counts_when_one_server_of_several_has_refused_the_login() -> None:
    asked: Any = SourceCluster({"bootstrap.servers": "127.0.0.1:1"})
    asked._admin = LateAdmin(asked._heard.append)
    assert asked.look(["orders"]) == {"orders": FoundTopic()}
