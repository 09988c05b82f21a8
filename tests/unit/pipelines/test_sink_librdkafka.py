"""The producer without a broker: settings, life and death."""

from __future__ import annotations

import os

import numpy as np
import psutil
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.pipelines.topic_writing.layout import lay_out, lay_out_calls
from penstock.pipelines.topic_writing.librdkafka import FailedRecord, RawProducer

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def ignore(record: FailedRecord) -> None:
    """Nobody asks."""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"no.such.setting": "1"}, "setting no.such.setting: No such configuration property"),
        ({"linger.ms": "soon"}, "setting linger.ms: Invalid value"),
        ({"acks": "7000000"}, "setting acks: .* outside allowed range"),
        ({"transactional.id": "x", "enable.idempotence": "false"}, "Failed to create producer: .*enable.idempotence"),
    ],
)
def test_a_setting_is_refused_by_name_when_it_cannot_be_used(settings: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaException, match=message) as failure:
        RawProducer(NOWHERE | settings, ignore)
    assert failure.value.args[0].code() == KafkaError._INVALID_ARG


def test_a_topic_is_refused_when_c_would_read_half_of_its_name() -> None:
    messages = lay_out(pa.array(["v"]), None)
    with pytest.raises(ValueError, match="null character"):
        RawProducer(NOWHERE, ignore).produce_batch("a\0b", -1, messages)
    with pytest.raises(ValueError, match="null character"):
        lay_out_calls(messages, ["a\0b"], np.zeros(1, np.intp), None)


def test_errors_say_what_may_be_done_when_a_transactional_call_fails() -> None:
    producer = RawProducer({**NOWHERE, "transactional.id": "x"}, ignore)
    with pytest.raises(KafkaException) as failure:
        producer.begin_transaction()
    error = failure.value.args[0]
    assert (error.code(), error.name(), error.retriable(), error.fatal()) == (KafkaError._STATE, "_STATE", False, False)
    with pytest.raises(KafkaException) as failure:
        producer.init_transactions(0.01)
    error = failure.value.args[0]
    assert (error.code(), error.retriable(), error.txn_requires_abort()) == (KafkaError._TIMED_OUT, True, False)


def test_no_threads_and_no_files_are_left_when_a_thousand_producers_have_come_and_gone() -> None:
    process = psutil.Process()
    RawProducer(NOWHERE, ignore).close()
    threads, files = process.num_threads(), process.num_fds()
    for number in range(1000):
        producer = RawProducer(NOWHERE, ignore)
        if number % 2:
            producer.close()
            producer.close()
    del producer
    # Each has two of either at least; clients of other tests in this process come and go.
    assert process.num_threads() < threads + 100
    assert process.num_fds() < files + 100


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # which is what this is about
def test_a_forked_process_ends_when_it_leaves_a_producer_behind() -> None:
    producer = RawProducer(NOWHERE, ignore)
    child = os.fork()
    if not child:
        producer.close()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    producer.close()


def test_a_closed_producer_is_not_used_when_somebody_still_holds_it() -> None:
    producer = RawProducer(NOWHERE, ignore)
    producer.close()
    with pytest.raises(AssertionError, match="closed"):
        producer.poll(0)
