"""Fixtures for the tests with Kafka's own software.

Every test that takes `broker` runs twice: against Apache Kafka, which shows that the test asks for what Kafka does, and
against Penstock, which shows that we do the same.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

import confluent_kafka.admin
import pytest
from confluent_kafka.cimpl import NewTopic

from apache_kafka.commands import ToolResult, run_command
from apache_kafka.jars import UNMEASURED_OPTIONS, compile_java, java_command
from apache_kafka.node import ApacheKafkaNode
from penstock.testing.processes import BrokerProcess, ServerProcess
from tests.shared_brokers import SHARED_BROKER

# What is not said here is as it comes.
BROKER_CONFIG = {"node.id": "1", **SHARED_BROKER}

JAVA_SOURCES = Path(__file__).parent / "java"
SCENARIO_TIMEOUT_S = 150

_topic_numbers = itertools.count(1)


class KafkaTool(Protocol):
    """Runs one of Kafka's command-line tools against the broker under test."""

    def __call__(
        self, name: str, *arguments: str, standard_input: str = "", must_succeed: bool = True
    ) -> ToolResult: ...


class MakeTopic(Protocol):
    """Creates a topic without the second that a tool needs to start; settings have `_` for `.`."""

    def __call__(self, name: str, partitions: int = 1, **config: str) -> None: ...


class RunScenario(Protocol):
    """Runs a scenario of a Java program on a new topic and returns what it printed."""

    def __call__(
        self, name: str, *arguments: str, partitions: int, program: str = "ClientScenario"
    ) -> dict[str, str]: ...


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaNode]:
    with ApacheKafkaNode(
        tmp_path_factory.mktemp("apache-kafka") / "node", config=BROKER_CONFIG, options=UNMEASURED_OPTIONS
    ) as node:
        yield node


@pytest.fixture(scope="session")
def penstock_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("penstock") / "data", config=BROKER_CONFIG) as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_config() -> dict[str, str]:
    """Of the brokers of a cluster, where a test has one."""
    return {
        "auto.leader.rebalance.enable": "false",  # who leads is what the tests did
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
    }


@pytest.fixture(scope="session", params=["apache_kafka", "penstock_broker"])
def broker(request: pytest.FixtureRequest) -> ServerProcess:
    return cast("ServerProcess", request.getfixturevalue(request.param))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of its own for each test; the topic is not created."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    return f"{words[:60].strip('-')}-{next(_topic_numbers)}"


@pytest.fixture
def make_topic(broker: ServerProcess) -> MakeTopic:
    def make(name: str, partitions: int = 1, **config: str) -> None:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)

    return make


@pytest.fixture
def kafka_tool(broker: ServerProcess) -> KafkaTool:
    def run(name: str, *arguments: str, standard_input: str = "", must_succeed: bool = True) -> ToolResult:
        return run_command(
            name,
            *("--bootstrap-server", broker.bootstrap_servers),
            *arguments,
            standard_input=standard_input,
            must_succeed=must_succeed,
        )

    return run


@pytest.fixture(scope="session")
def scenario_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_java(JAVA_SOURCES.glob("*.java"), tmp_path_factory.mktemp("scenario-classes"))


@pytest.fixture
def run_scenario(broker: ServerProcess, make_topic: MakeTopic, topic: str, scenario_classes: Path) -> RunScenario:
    def run(name: str, *arguments: str, partitions: int, program: str = "ClientScenario") -> dict[str, str]:
        make_topic(topic, partitions)
        command = java_command(program, broker.bootstrap_servers, name, topic, *arguments, classes=scenario_classes)
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SCENARIO_TIMEOUT_S, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return dict(line.split("=", 1) for line in ended.stdout.splitlines())

    return run
