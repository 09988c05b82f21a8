from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo

from penstock.pipelines.kafka.broker_patience import PAUSE_S, ask_patiently, is_away
from penstock.pipelines.source.cluster import offset_of


def failing(*errors: Exception) -> Callable[[], str]:
    left = list(errors)

    def ask() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    return ask


def kafka(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (kafka(KafkaError._TRANSPORT), True),
        (kafka(KafkaError._ALL_BROKERS_DOWN), True),
        (kafka(KafkaError.COORDINATOR_LOAD_IN_PROGRESS), True),
        (kafka(KafkaError.FENCED_LEADER_EPOCH), True),
        (kafka(KafkaError._NOENT), True),
        (FutureTimeoutError(), True),
        (kafka(KafkaError.GROUP_AUTHORIZATION_FAILED), False),
        (kafka(KafkaError.UNKNOWN_TOPIC_OR_PART), False),
    ],
)
def test_a_broker_counts_as_away_when_the_same_request_may_be_answered_later(
    error: KafkaException | FutureTimeoutError, expected: bool
) -> None:
    assert is_away(error) is expected


def test_it_counts_as_away_when_an_answer_has_no_offset() -> None:
    assert offset_of(ListOffsetsResultInfo(7, -1, -1)) == 7
    with pytest.raises(KafkaException) as raised:
        offset_of(ListOffsetsResultInfo(-1001, -1, -1))
    assert is_away(raised.value)


def test_the_answer_is_given_when_the_broker_comes_back() -> None:
    pauses: list[float] = []
    ask = failing(kafka(KafkaError._TRANSPORT), FutureTimeoutError(), kafka(KafkaError.NOT_COORDINATOR))
    assert ask_patiently("asking", ask, clock=lambda: 0.0, sleep=pauses.append) == "answer"
    assert pauses == [PAUSE_S] * 3


def test_the_error_is_raised_when_it_is_no_absence_or_lasts_too_long() -> None:
    with pytest.raises(KafkaException):
        ask_patiently("asking", failing(kafka(KafkaError.GROUP_AUTHORIZATION_FAILED)))
    times = iter((0.0, 59.0, 60.0))
    ask = failing(*[kafka(KafkaError._TRANSPORT)] * 3)
    with pytest.raises(KafkaException, match="transport"):
        ask_patiently("asking", ask, patience_s=60.0, clock=lambda: next(times), sleep=lambda _: None)
