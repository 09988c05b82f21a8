"""Java's Kafka Streams on the broker: exactly once, topics in between that are purged, the tool that starts over."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from penstock.testing.processes import ServerProcess
from tests.interop.conftest import KafkaTool
from tests.interop.streams.case_files import Record, comparable, load_answers, load_case, load_cases
from tests.interop.streams.oracle import ask_application
from tests.interop.streams.steps import WITHOUT_TIMES

# Two topics whose order is not that of their records' times: an application decides for itself which one comes first.
IN_NO_ORDER = {"stream-table-join-order"}


@pytest.mark.timeout(400)
def test_applications_end_with_the_same_answers_when_they_run_exactly_once(
    broker: ServerProcess, oracle_classes: Path
) -> None:
    cases = {name: case for name, case in load_cases().items() if name not in IN_NO_ORDER}
    answers = ask_application(oracle_classes, broker.bootstrap_servers, "all-cases", cases.values())
    for name, case in cases.items():
        for topic, output in case.outputs.items():
            with_times = name not in WITHOUT_TIMES
            found = comparable(output, (Record(**row) for row in answers[name][topic]), with_times=with_times)
            assert found == comparable(output, load_answers(name)[topic], with_times=with_times), f"{name}: {topic}"


def test_an_application_reads_and_writes_everything_again_when_the_tool_has_reset_it(
    broker: ServerProcess, oracle_classes: Path, kafka_tool: KafkaTool
) -> None:
    case = load_case("repartition")
    application, servers = "starts-over", broker.bootstrap_servers
    once = ask_application(oracle_classes, servers, application, [case])["repartition"]
    reset = ["--application-id", application, "--input-topics", case.topic("in"), "--force"]
    kafka_tool("kafka-streams-application-reset", *reset)
    topics = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=30).topics
    assert not [topic for topic in topics if topic.startswith(f"{application}-")]
    twice = ask_application(oracle_classes, servers, application, [case])["repartition"]
    for topic, output in case.outputs.items():
        assert len(twice[topic]) == len(once[topic]) + len(load_answers(case.name)[topic])
        found = comparable(output, (Record(**row) for row in twice[topic][len(once[topic]) :]))
        assert found == comparable(output, load_answers(case.name)[topic]), topic
