"""One backoff, one table of what is retriable: what differs from them is listed here with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.client.routes.answers import CONTROLLER_MOVED, COORDINATOR_MOVED, LEADER_MOVED
from penstock.client.sendings import UNSURE
from penstock.pipelines.kafka.broker_patience import is_away
from penstock.protocol.errors import ErrorCode, is_retriable

SOURCES = Path(__file__).parents[2] / "src" / "penstock"
DOUBLING = re.compile(
    r"(?:min\(|= )\s*2 \* \w*(?:pause|delay|retry|backoff)|\w*(?:pause|delay|retry|backoff)\w* \* 2\b"
    r"|\w*(?:PAUSE|DELAY|RETRY|BACKOFF)\w* <<"
)
# Where a pause doubles and no attempt follows it.
LOOKS = {
    "rest/consumers/instance.py": "looks for new records, and is woken by them",
    "cli/commands/replica_moves.py": "looks how far moves are",
}
RETRIABLE = {code for code in ErrorCode if is_retriable(code)}


def test_a_pause_is_a_backoffs_when_an_attempt_follows() -> None:
    found = {
        path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if DOUBLING.search(path.read_text())
    }
    assert found == set(LOOKS), "use core.time.backoff, or say here why the pause is none before another attempt"


@pytest.mark.parametrize("line", ["pause_s = min(2 * pause_s, 1)", "min(retry_ms * 2, LAST)", "_RETRY_MS << failures"])
def test_a_doubling_is_found_when_it_is_written_by_hand(line: str) -> None:
    assert DOUBLING.search(line)


@pytest.mark.parametrize("codes", [COORDINATOR_MOVED, CONTROLLER_MOVED, LEADER_MOVED, UNSURE])
def test_a_code_is_retriable_when_clients_ask_again_because_of_it(codes: frozenset[ErrorCode]) -> None:
    assert codes <= RETRIABLE


def test_a_broker_counts_as_away_for_codes_of_the_table_when_waiting_for_it_helps() -> None:
    away = {code for code in ErrorCode if code > 0 and is_away(KafkaException(KafkaError(code)))}
    assert away - RETRIABLE == {ErrorCode.BROKER_NOT_AVAILABLE}
    assert {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # told at once: the name may be misspelt
        ErrorCode.CONCURRENT_TRANSACTIONS,  # librdkafka itself tries again
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    } <= RETRIABLE - away
