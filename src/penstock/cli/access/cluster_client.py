"""The cluster a command talks to: where it is, how to log in, and the clients for it.

Nothing here imports a client library before it is needed: `--help` and `broker start` must not pay for it.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.cli.errors import CliError, ExitCode, UsageError, explain, explain_exception, unreachable
from penstock.client import addresses
from penstock.client.java_settings import NO_TOKENS, TOKEN
from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.client.routes.answers import COORDINATOR_MOVED
from penstock.core.sockets.host_names import failing_as_unknown
from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

    from penstock.cli.access.admin_types import ClusterMetadata

Result = TypeVar("Result")
Key = TypeVar("Key")

# Kafka's tools wait 30 s for an administrative answer (request.timeout.ms of the Java client).
REQUEST_TIMEOUT_SECONDS = 30.0
# A TCP connection that takes longer than this on a working network is not going to come.
CONNECT_TIMEOUT_SECONDS = 5.0
# Metadata version 1 of no topic, without a client id: every broker answers, and needs no right for it. A listener with
# TLS or logins does not. An answer begins with its size, which is below 16 MiB; an alert of TLS does not begin so.
_PROBE = struct.pack(">ihhihi", 14, 3, 1, 0, -1, 0)
_BEGINS_AN_ANSWER = b"\x00"
# A topic made by auto-creation, or the first lookup of a group, takes a moment to be seen by every request.
SETTLE_SECONDS = 5.0
_SETTLING_POLICY = RetryPolicy(SETTLE_SECONDS, 0.1, 0.1)
# Of the retriable codes those that pass by themselves; librdkafka itself tries again after others, as for a leader that
# moved, and a topic that is unknown is told at once.
_SETTLING: Container[int] = COORDINATOR_MOVED | {ErrorCode.LEADER_NOT_AVAILABLE}


_WITHOUT_LIBRARY = "Log in with a password, a certificate or a token of an issuer."


@dataclass(frozen=True, slots=True)
class ClusterClient:
    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)  # librdkafka's; passwords are among them
    errors: list[str] = field(default_factory=list)  # what the client library reported in the background
    patience_s: float = CONNECT_TIMEOUT_SECONDS  # with an address where another one may answer instead
    heard: addresses.Heard = field(default_factory=addresses.Heard)
    opened: list[object] = field(default_factory=list)  # a client that is collected takes its open requests with it

    def admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        self.check_reachable()
        admin = AdminClient(self._client_config({}))
        self.opened.append(admin)
        return admin

    def producer(self, overrides: Mapping[str, Any]) -> Producer:
        from confluent_kafka import Producer

        self.check_reachable()
        # Keys land in the partitions that Java clients put them in, not in librdkafka's own default.
        return Producer(self._client_config({"partitioner": "murmur2_random", **overrides}))

    def consumer(self, overrides: Mapping[str, Any]) -> Consumer:
        from confluent_kafka import Consumer

        config = self._client_config(overrides)
        if config.get("group.id") == "":  # librdkafka's binding would end the process
            raise UsageError("the name of the group is empty")
        self.check_reachable()
        return Consumer(config)

    def _client_config(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """User settings beat ours. The library's log is silent unless asked for: its errors are told once, by us."""
        if TOKEN in self.settings:
            raise UsageError(f"this command goes by librdkafka, and {NO_TOKENS}", _WITHOUT_LIBRARY)
        silence = {} if "debug" in self.settings else {"log_level": 0}
        return {
            "client.id": "penstock-cli",
            **silence,
            **overrides,
            **self.settings,
            "bootstrap.servers": self.answering_servers(),
            "error_cb": self._remember_error,
        }

    def _remember_error(self, error: Any) -> None:
        self.errors.append(error.str())

    def check_reachable(self) -> None:
        """Fails at once, with the reason, where the client library would try again until its time is up: nobody
        listens, the certificate is not trusted, the login is refused, the listener wants TLS and got plain text.
        """
        servers = parse_servers(self.bootstrap_servers)
        if self.settings.get("security.protocol", "plaintext").lower() != "plaintext":
            from penstock.cli.access.connect import try_login

            try_login(servers, self.settings, self.patience_s, self.heard)
            return
        reasons = []
        is_any_there = False
        for host, port in self.heard.order(servers):
            try:
                is_answer = _try_plain(host, port, self.heard.patience((host, port), self.patience_s))
            except OSError as error:
                reasons.append(f"{host}:{port} ({error.strerror or error})")
                self.heard.note_failure((host, port), error)
                continue
            is_any_there = True
            self.heard.note((host, port), answered=is_answer)
            if is_answer:
                return
        if not is_any_there:  # else brokers are busy: the client library has more patience
            raise unreachable(reasons)

    def answering_servers(self) -> str:
        """For the client library, which would wait again for those that were silent."""
        servers = parse_servers(self.bootstrap_servers)
        others = [address for address in servers if not self.heard.is_silent(address)]
        if not others or len(others) == len(servers):
            return self.bootstrap_servers
        return ",".join(map(addresses.format_address, others))


def _try_plain(host: str, port: int, patience_s: float) -> bool:
    """Whether it answers within the time. Raises OSError where nobody listens."""
    with failing_as_unknown():
        connection = socket.create_connection((host, port), timeout=patience_s)
    with connection as probe:
        try:
            probe.sendall(_PROBE)
            begun = probe.recv(1)
        except TimeoutError:
            return False
        except ConnectionError:
            begun = b""
    if begun != _BEGINS_AN_ANSWER:
        raise CliError(
            f"{host}:{port} does not answer a client without TLS or a login",
            "If the listener wants them, give security.protocol, ssl.* and sasl.* in a file with --command-config.",
            ExitCode.UNREACHABLE,
        )
    return True


def parse_servers(text: str) -> list[addresses.Address]:
    try:
        servers = addresses.parse_servers(text)
    except ValueError as error:
        raise UsageError(str(error), "Write it as HOST:PORT.") from error
    if not servers:
        raise UsageError("the list of bootstrap servers is empty", "Write it as HOST:PORT,HOST:PORT.")
    return servers


def wait(request: Callable[[], Future[Result]], subject: str = "") -> Result:
    """The answer to `request`, sent again while the cluster is still settling."""
    from confluent_kafka import KafkaException

    def judge(error: Exception) -> Outlook:
        return Outlook.PASSING if error.args[0].code() in _SETTLING else Outlook.FINAL

    try:
        return Retrying(_SETTLING_POLICY).run(
            lambda: request().result(REQUEST_TIMEOUT_SECONDS + 5), KafkaException, judge
        )
    except KafkaException as error:
        raise explain_exception(error, subject) from error


def wait_each(futures: Mapping[Key, Future[Result]]) -> tuple[dict[Key, Result], dict[Key, CliError]]:
    """Every answer of a request about many things, apart from every refusal."""
    from confluent_kafka import KafkaException

    results: dict[Key, Result] = {}
    failures: dict[Key, CliError] = {}
    for key, future in futures.items():
        try:
            results[key] = future.result(REQUEST_TIMEOUT_SECONDS + 5)
        except KafkaException as error:
            failures[key] = explain_exception(error, str(key))
    return results, failures


def raise_failures(failures: Iterable[CliError]) -> None:
    """One error for many: each message on its line, each hint once."""
    errors = list(failures)
    if errors:
        hints = dict.fromkeys(error.hint for error in errors if error.hint)
        raise CliError(
            "\nError: ".join(error.message for error in errors), "\n".join(hints), errors[0].exit_code, errors[0].name
        )


def fetch_metadata(client: AdminClient | Producer | Consumer, topic: str | None = None) -> ClusterMetadata:
    """Works with every kind of client; `topic` may be created by asking, where the client and the broker allow it."""
    if topic is None:
        return client.list_topics(timeout=REQUEST_TIMEOUT_SECONDS)
    return client.list_topics(topic, timeout=REQUEST_TIMEOUT_SECONDS)


def list_partitions(admin: AdminClient, topic: str) -> list[int]:
    """The topic's partitions, in order. Never creates the topic."""
    from confluent_kafka import TopicCollection

    futures = admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_SECONDS)
    described = wait(lambda: futures[topic], f"topic {topic}")
    return sorted(partition.id for partition in described.partitions)


def find_partitions(client: Producer | Consumer, topic: str, settle_seconds: float = 0.0) -> list[int]:
    """The topic's partitions, in order. Asking may create the topic: then waits `settle_seconds` for it."""
    deadline = time.monotonic() + settle_seconds
    while True:
        described = fetch_metadata(client, topic).topics[topic]
        if described.error is None and described.partitions:
            return sorted(described.partitions)
        if time.monotonic() >= deadline:
            break
        time.sleep(0.05)
    error = described.error
    raise explain(error.name() if error else "UNKNOWN_TOPIC_OR_PART", error.str() if error else "", f"topic {topic}")
