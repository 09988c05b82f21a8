"""Kafka's command-line tools, named as the scripts of its distribution, run from the jars."""

from __future__ import annotations

import atexit
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from apache_kafka.jars import TOOL_OPTIONS, class_archive, java_command
from apache_kafka.tool_server import ToolServer

# Script name -> the class that it starts.
COMMANDS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}

# They read standard input, or end by a signal and in threads of their own: each has a process of its own.
OWN_PROCESS = frozenset(
    {
        "kafka-console-consumer",
        "kafka-console-producer",
        "kafka-consumer-perf-test",
        "kafka-e2e-latency",
        "kafka-producer-perf-test",
        "kafka-streams-application-reset",
        "kafka-verifiable-consumer",
        "kafka-verifiable-producer",
    }
)

# A tool that hangs on an unanswered request gives up by itself after a minute; this is beyond that.
TOOL_TIMEOUT_S = 100


class ToolFailedError(Exception):
    """A tool ended with an error; the text holds all that it printed."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    return_code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.stdout.splitlines() if line.strip()]

    @property
    def output(self) -> str:
        """Both streams: the tools are not consistent about which one carries an error."""
        return self.stdout + self.stderr


_server = ToolServer()
atexit.register(_server.close)


def run_command(
    name: str, *arguments: str, standard_input: str = "", must_succeed: bool = True, java_options: Sequence[str] = ()
) -> ToolResult:
    if name in OWN_PROCESS or standard_input or java_options:
        result = _run_process(name, arguments, standard_input, java_options)
    else:
        result = ToolResult(*_server.run(COMMANDS[name], arguments, TOOL_TIMEOUT_S))
    if must_succeed and result.return_code != 0:
        raise ToolFailedError(f"{name} {' '.join(arguments)} ended with {result.return_code}:\n{result.output}")
    return result


def _run_process(name: str, arguments: Sequence[str], standard_input: str, java_options: Sequence[str]) -> ToolResult:
    finished = subprocess.run(
        java_command(COMMANDS[name], *arguments, options=(*TOOL_OPTIONS, _archive_option(), *java_options)),
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    return ToolResult(finished.returncode, finished.stdout, finished.stderr)


def _archive_option() -> str:
    """The first run writes the archive of classes, at its end; the ones after it read it."""
    archive = class_archive()
    return f"-XX:{'SharedArchiveFile' if archive.exists() else 'ArchiveClassesAtExit'}={archive}"
