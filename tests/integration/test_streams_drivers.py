"""Two drivers of one application: the second is refused at once, and takes over where the first is gone."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import penstock
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.pipelines.pipeline import Settings
from penstock.processes.server_process import pause_process
from penstock.streams.runtime.driver_lease import Lease, take_lease
from penstock.streams.topology.errors import StreamsError
from tests.clients.cli_runner import Cli
from tests.integration.client.support import WAIT_S

# Short, where a driver is to be given up.
SESSION_MS = 1_000
# Where a driver must stay in its group: a busy machine misses the heartbeats of a shorter one.
LASTING_MS = 6_000
PROGRAM = """
import sys
from penstock.pipelines.pipeline import Settings
from penstock.streams.runtime.driver_lease import take_lease
from penstock.streams.topology.errors import StreamsError

settings = Settings(bootstrap_servers=sys.argv[2], kafka={"session.timeout.ms": sys.argv[3]})
lease = take_lease(sys.argv[1], settings, "/first")
print("began", flush=True)
for line in sys.stdin:
    try:
        lease.check()
    except StreamsError as error:
        print(error.message, flush=True)
    else:
        print("holds", flush=True)
"""
CODE = """
from penstock.streams import Streams, text

app = Streams("refused")
app.stream("lines", value=text()).to("copied")
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[penstock.Broker]:
    config = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}
    with penstock.Broker(config=config) as running:
        yield running


@contextmanager
def lease_of(
    broker: penstock.Broker, application: str, session_ms: int = SESSION_MS, user: str | None = None
) -> Iterator[Lease]:
    kafka = {"session.timeout.ms": str(session_ms), **({} if user is None else login_of(user))}
    settings = Settings(bootstrap_servers=broker.bootstrap_servers, kafka=kafka)
    lease = take_lease(application, settings, "/second")
    assert lease is not None
    try:
        yield lease
    finally:
        lease.close()


class First:
    """A driver in a process of its own."""

    def __init__(self, broker: penstock.Broker, application: str, session_ms: int = SESSION_MS) -> None:
        command = [sys.executable, "-c", PROGRAM, application, broker.bootstrap_servers, str(session_ms)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._line() == "began"

    def check(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_second_driver_is_refused_by_the_heartbeat_of_the_first(broker: penstock.Broker) -> None:
    session_ms = 60_000
    first = First(broker, "bakery", session_ms)
    try:
        began = time.monotonic()
        with pytest.raises(StreamsError) as refused, lease_of(broker, "bakery", session_ms):
            pass
        assert time.monotonic() - began < session_ms / 2000  # not by the end of its session
        who = f"process {first.process.pid} on {socket.gethostname()}, since "
        assert refused.value.message.startswith(f"another driver runs bakery: {who}")
        assert refused.value.message.endswith("UTC, with the checkpoint /first")
        assert first.check() == "holds"  # whoever was refused has not disturbed it
    finally:
        first.kill()


def test_second_driver_begins_when_the_first_is_gone_and_a_first_that_wakes_up_ends(broker: penstock.Broker) -> None:
    first = First(broker, "shop")
    try:
        pause_process(first.process.pid)
        with lease_of(broker, "shop") as second:
            os.kill(first.process.pid, signal.SIGCONT)
            deadline = time.monotonic() + WAIT_S
            while (told := first.check()) == "holds" and time.monotonic() < deadline:
                time.sleep(0.02)
            assert told.startswith(f"another driver has taken over shop: process {os.getpid()} on ")
            second.check()
    finally:
        first.kill()
    with lease_of(broker, "shop") as third:  # the session of a killed driver comes to its end
        third.check()


def test_driver_goes_on_when_brokers_were_away_and_nobody_else_came(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.streams.runtime.driver_lease")
    config = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}
    broker = penstock.Broker(tmp_path, config=config)
    broker.start()
    port = broker.port
    try:
        with lease_of(broker, "patient", LASTING_MS) as lease:
            broker.stop()
            wait_for_words(caplog, "the group patient has lost this driver")
            broker = penstock.Broker(tmp_path, port=port, config=config)
            broker.start()
            wait_for_words(caplog, "the group patient has this driver again")
            lease.check()
            refused = pytest.raises(StreamsError, match="another driver runs patient")
            with refused, lease_of(broker, "patient", LASTING_MS):
                pass
    finally:
        broker.stop()


def login_of(user: str) -> dict[str, str]:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": "secret"}
    return {"security.protocol": "SASL_PLAINTEXT", **login}


def with_users(*users: str, port: int = 0) -> dict[str, str]:
    """Of a broker that knows them; `admin` may do everything, others all that no ACL is about."""
    known = " ".join(f'user_{user}="secret"' for user in users)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{module} required username="admin" password="secret" {known};'
        ),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:admin",
        "group.min.session.timeout.ms": "100",
    }


def test_driver_is_in_the_group_again_when_its_login_failed_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.streams.runtime.driver_lease")
    broker = penstock.Broker(tmp_path, config=with_users("admin", "driver"))
    broker.start()
    port = broker.port
    try:
        with lease_of(broker, "shop", LASTING_MS, "driver") as lease:
            for users, told in (
                (("admin",), "goes on outside of the group shop until it can join again"),
                (("admin", "driver"), "the group shop has this driver again"),
            ):
                broker.stop()
                broker = penstock.Broker(tmp_path, config=with_users(*users, port=port))
                broker.start()
                wait_for_words(caplog, told)
                lease.check()
            refused = pytest.raises(StreamsError, match="another driver runs shop")
            with refused, lease_of(broker, "shop", LASTING_MS, "admin"):
                pass
    finally:
        broker.stop()


def test_driver_ends_when_it_joins_again_and_another_has_the_group(caplog: pytest.LogCaptureFixture) -> None:
    with penstock.Broker(config=with_users("admin", "driver")) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **login_of("admin")})
        place = (ResourceType.GROUP, "shop", ResourcePatternType.LITERAL, "User:driver", "*")
        denied = AclBinding(*place, AclOperation.READ, AclPermissionType.DENY)
        with lease_of(broker, "shop", 300, "driver") as first:
            admin.create_acls([denied])[denied].result(WAIT_S)
            wait_for_words(caplog, "goes on outside of the group shop")
            with lease_of(broker, "shop", 300, "admin") as second:
                first.check()  # nobody has told it yet
                rules = AclBindingFilter(*place, AclOperation.ANY, AclPermissionType.ANY)
                admin.delete_acls([rules])[rules].result(WAIT_S)
                deadline = time.monotonic() + WAIT_S
                taken = f"another driver has taken over shop: process {os.getpid()} on "
                while not (told := refusal_of(first)) and time.monotonic() < deadline:
                    time.sleep(0.02)
                assert told.startswith(taken)
                second.check()


def refusal_of(lease: Lease) -> str:
    try:
        lease.check()
    except StreamsError as error:
        return error.message
    return ""


def wait_for_words(caplog: pytest.LogCaptureFixture, words: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while words not in caplog.text:
        assert time.monotonic() < deadline, f"nobody said: {words}"
        time.sleep(0.02)


def test_application_is_refused_when_its_group_is_that_of_consumers(broker: penstock.Broker) -> None:
    broker.create_topic("read", 1)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "consumers"}
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.subscribe(["read"])
        while not consumer.assignment():
            consumer.poll(0.05)
        no_drivers = "the group consumers has members that are no drivers"
        with pytest.raises(StreamsError, match=no_drivers) as refused, lease_of(broker, "consumers"):
            pass
        assert "group_id" in refused.value.hint
    finally:
        consumer.close()


def test_commands_name_the_driver_that_runs_before_spark_is_started(broker: penstock.Broker, tmp_path: Path) -> None:
    file = tmp_path / "refused.py"
    file.write_text(CODE)
    settings = ["--set", f"checkpoint={tmp_path / 'checkpoint'}", "--set", f"kafka.session.timeout.ms={SESSION_MS}"]
    with lease_of(broker, "refused") as lease:
        cli = Cli(broker.bootstrap_servers)
        for command in (["run"], ["reset", "--yes"]):
            refused = cli.try_run("streams", *command, str(file), *settings)
            assert refused.code == 1
            assert f"Error: another driver runs refused: process {os.getpid()} on {socket.gethostname()}" in refused.err
            assert "Stop that one first." in refused.err
            assert refused.text == ""
        lease.check()


def test_user_is_told_what_to_do_when_no_broker_answers_or_a_session_is_no_number() -> None:
    with pytest.raises(StreamsError, match=r"no broker answers: .*refused") as nobody:
        take_lease("shop", Settings(bootstrap_servers="127.0.0.1:1"), "/first")
    assert nobody.value.hint == "Is the broker up, and the port right?"
    with pytest.raises(StreamsError, match=r"kafka.session.timeout.ms is 'soon', which is no number"):
        take_lease("shop", Settings(kafka={"session.timeout.ms": "soon"}), "/first")
