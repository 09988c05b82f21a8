"""Logins by Kerberos (GSSAPI) against a real KDC: Java, kafka-python, aiokafka, our own client and commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pytest

from apache_kafka.commands import run_command
from apache_kafka.jars import UNMEASURED_OPTIONS
from apache_kafka.node import ApacheKafkaNode
from penstock.client.connection import BlockingConnection
from penstock.client.versioned_client import VersionedClient
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.security.certificates.directory import CertificateDirectory
from penstock.testing.processes import BrokerProcess, ZooKeeperProcess, find_free_port
from tests.certificates import broker_settings, new_directory
from tests.clients.support import eventually
from tests.interop.security.kerberos import BROKER, REALM, SERVICE, Realm, jaas, run_realm
from tests.interop.security.test_logins_again import AGAIN, read_metric

REPOSITORY = Path(__file__).parents[3]
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
REFUSED = str(int(ErrorCode.SASL_AUTHENTICATION_FAILED))
# The name of a host's application without its host; everybody else of the realm keeps the name.
RULES = rf"RULE:[2:$1@$0](app@{REALM})s/.*/Application/L,DEFAULT"
TIMEOUT_S = 150


class Kerberized(NamedTuple):
    """A broker with a listener for each protocol, one whose keytab is out of date, and one without logins."""

    realm: Realm
    directory: CertificateDirectory
    ports: dict[str, int]
    folder: Path
    audit: Path

    def bootstrap(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def authority(self, protocol: str) -> list[str]:
        return [str(self.directory.trusted)] if protocol == "SASL_SSL" else []

    def properties(self, protocol: str, client: str, keytab: Path | None = None) -> str:
        """The path of a property file, as Kafka's tools and ours take it."""
        settings = {
            "security.protocol": protocol,
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "sasl.jaas.config": jaas(keytab or self.realm.keytab(client), client),
        }
        if protocol == "SASL_SSL":
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory.trusted)}
        path = self.folder / f"{client.replace('/', '-')}-{protocol}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return str(path)

    def tool(self, name: str, protocol: str, client: str, *arguments: str, **options: Any) -> list[str]:
        """One of Kafka's tools, logged in as `client`."""
        where = ("--bootstrap-server", self.bootstrap(protocol), "--command-config", self.properties(protocol, client))
        java = (f"-Djava.security.krb5.conf={self.realm.config}",)
        return run_command(name, *where, *arguments, java_options=java, **options).lines

    def run(self, task: str, listener: str, subject: str, client: str = "alice") -> str:
        """A task of `kerberos_client`, with the tickets of `client`."""
        arguments = (task, self.bootstrap(listener), subject, *self.authority(listener))
        return self.module("kerberos_client", *arguments, client=client)

    def module(self, name: str, *arguments: str, client: str = "nobody") -> str:
        ended = self._python(client, "-m", f"tests.interop.security.{name}", *arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def penstock(self, properties: str, protocol: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = ("--bootstrap-server", self.bootstrap(protocol), "--command-config", properties)
        return self._python("nobody", "-m", "penstock", *arguments, *where)

    def _python(self, client: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        tickets = self.realm.environment if client == "nobody" else self.realm.environment_of(client)
        paths = os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "src")))
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, **tickets, "PYTHONPATH": paths},
        )

    def logins(self) -> list[dict[str, Any]]:
        """What the audit trail tells of them so far."""
        events = [json.loads(line)["data"] for line in self.audit.read_text().splitlines()]
        return [event for event in events if event.get("methodName") == "SaslAuthenticate"]


class Judged(NamedTuple):
    """A broker, ours or Kafka's, that clients show tickets to."""

    clients: Kerberized
    bootstrap: str

    def run(self, task: str, subject: str, client: str = "alice") -> str:
        return self.clients.module("kerberos_client", task, self.bootstrap, subject, client=client)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with run_realm(tmp_path_factory.mktemp("realm")) as realm:
        yield realm


@pytest.fixture(scope="module")
def kerberized(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberized]:
    directory = new_directory(tmp_path_factory.mktemp("certificates"))
    folder = tmp_path_factory.mktemp("kerberized")
    ports = {name: find_free_port() for name in ("PLAINTEXT", *PROTOCOLS, "STALE", "SLOW")}
    metrics_port = find_free_port()
    stale = realm.keytab("stale/localhost")
    realm.change_key("stale/localhost")
    slow = folder / "slow.keytab"
    os.mkfifo(slow)
    # The keytab has another service beside, whose tickets are not for this broker.
    own = jaas(realm.keytab(BROKER, "other/localhost"), BROKER)
    config = {
        "listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        "penstock.metrics.listen": f"127.0.0.1:{metrics_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,"
        "STALE:SASL_PLAINTEXT,SLOW:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.jaas.config": own,
        "listener.name.stale.gssapi.sasl.jaas.config": jaas(stale, "stale/localhost"),
        "listener.name.slow.gssapi.sasl.jaas.config": jaas(slow, BROKER),
        "sasl.kerberos.principal.to.local.rules": RULES,
        "listener.name.sasl_ssl.gssapi.connections.max.reauth.ms": "2000",
        "delegation.token.secret.key": "the brokers' own",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:alice",
        "penstock.audit.file": str(folder / "audit.jsonl"),
        "group.initial.rebalance.delay.ms": "0",
        "connection.failed.authentication.delay.ms": "10",
        **broker_settings(directory),
    }
    port = ports["PLAINTEXT"]
    environment = realm.environment
    with BrokerProcess(folder / "data", port=port, config=config, environment=environment):
        yield Kerberized(realm, directory, {**ports, "METRICS": metrics_port}, folder, folder / "audit.jsonl")


@pytest.fixture(scope="module")
def kafka_with_kerberos(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka with the same keytab and rules, as the oracle of what is refused."""
    plain, sasl, controller = find_free_port(), find_free_port(), find_free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://localhost:{sasl}"
    config = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": jaas(realm.keytab(BROKER, "other/localhost"), BROKER),
        "sasl.kerberos.principal.to.local.rules": RULES.replace("\\", "\\\\"),
        "delegation.token.secret.key": "the brokers' own",
    }
    node = ApacheKafkaNode(
        tmp_path_factory.mktemp("kafka-kerberos") / "node", config=config, port=plain, options=UNMEASURED_OPTIONS
    )
    node.environment = {"JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={realm.config}"}
    with node:
        yield f"localhost:{sasl}"


@pytest.fixture(scope="module", params=["Apache Kafka", "Penstock"])
def judged(request: pytest.FixtureRequest, kerberized: Kerberized) -> Judged:
    if request.param == "Penstock":
        return Judged(kerberized, kerberized.bootstrap("SASL_PLAINTEXT"))
    return Judged(kerberized, request.getfixturevalue("kafka_with_kerberos"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lines_come_back_when_kafkas_console_clients_have_a_keytab(kerberized: Kerberized, protocol: str) -> None:
    topic = f"java-{protocol}"
    kerberized.tool("kafka-console-producer", protocol, "alice", "--topic", topic, standard_input="a\nb\nc\n")
    reading = ("--topic", topic, "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000")
    assert kerberized.tool("kafka-console-consumer", protocol, "alice", *reading) == ["a", "b", "c"]
    assert topic in kerberized.tool("kafka-topics", protocol, "alice", "--list")


def test_every_record_arrives_when_a_java_producer_logs_in_again_and_again(kerberized: Kerberized) -> None:
    """The listener's logins end after two seconds; the program writes for twelve."""
    writing = ("--topic", "again", "--num-records", "2400", "--throughput", "200", "--record-size", "100")
    written = kerberized.tool("kafka-producer-perf-test", "SASL_SSL", "alice", *writing)
    assert any(line.startswith("2400 records sent") for line in written)
    offsets = ("--topic", "again")
    assert kerberized.tool("kafka-get-offsets", "SASL_PLAINTEXT", "alice", *offsets) == ["again:0:2400"]
    assert read_metric(kerberized.ports["METRICS"], AGAIN) >= 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("library", ["kafka-python", "aiokafka"])
def test_record_comes_back_when_a_client_in_python_has_a_keytab(
    kerberized: Kerberized, library: str, protocol: str
) -> None:
    assert kerberized.run(library, protocol, f"{library}-{protocol}") == f"by {library}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_our_commands_log_in_when_the_property_file_names_a_keytab(kerberized: Kerberized, protocol: str) -> None:
    ended = kerberized.penstock(kerberized.properties(protocol, "alice"), protocol, "tokens", "create", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["owner"] == "User:alice"


def test_application_has_its_short_name_when_a_rule_is_for_its_principal(kerberized: Kerberized) -> None:
    properties = kerberized.properties("SASL_PLAINTEXT", "app/worker-1")
    ended = kerberized.penstock(properties, "SASL_PLAINTEXT", "tokens", "create", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["owner"] == "User:application"
    # and has the rights of that name, which are none so far
    listed = kerberized.penstock(properties, "SASL_PLAINTEXT", "acls", "list")
    assert listed.returncode == 1
    assert "authoriz" in listed.stderr.lower()


@pytest.mark.parametrize(("client", "user"), [("alice", "alice"), ("app/worker-1", "application")])
def test_client_is_whom_the_ticket_names_when_it_names_another_user(judged: Judged, client: str, user: str) -> None:
    """Clients in Python name the broker's service there."""
    assert judged.run("act-as-admin", SERVICE, client) == user


def test_login_is_refused_when_the_ticket_was_shown_before(judged: Judged) -> None:
    assert judged.run("ticket-twice", SERVICE) == f"0 {REFUSED}"


def test_login_is_refused_when_the_ticket_is_for_another_service(judged: Judged) -> None:
    assert judged.run("ticket", "other") == REFUSED


def test_logins_are_refused_and_nothing_breaks_when_tickets_are_spoilt(kerberized: Kerberized) -> None:
    answers = kerberized.run("tickets-spoilt", "SASL_PLAINTEXT", SERVICE).split()
    assert REFUSED in answers
    assert {*answers} <= {"0", REFUSED}
    assert "Traceback" not in (kerberized.folder / "data.process.log").read_text()


def test_login_is_refused_when_the_brokers_keytab_is_out_of_date(kerberized: Kerberized) -> None:
    assert kerberized.run("ticket", "STALE", "stale") == REFUSED


def test_kafkas_tool_is_refused_when_its_keytab_is_anothers(kerberized: Kerberized) -> None:
    properties = kerberized.properties("SASL_PLAINTEXT", "bob", kerberized.realm.keytab("alice"))
    kerberized.realm.add("bob")
    refused = run_command(
        "kafka-topics",
        *("--bootstrap-server", kerberized.bootstrap("SASL_PLAINTEXT"), "--command-config", properties, "--list"),
        java_options=(f"-Djava.security.krb5.conf={kerberized.realm.config}",),
        must_succeed=False,
    )
    assert refused.return_code != 0
    ended = kerberized.penstock(properties, "SASL_PLAINTEXT", "acls", "list")
    assert ended.returncode == 3
    assert "the login failed: Kerberos" in ended.stderr


def test_command_names_the_cause_when_its_library_has_no_kerberos(kerberized: Kerberized) -> None:
    """confluent-kafka's wheels come without; commands that use it cannot log in."""
    properties = kerberized.properties("SASL_PLAINTEXT", "alice")
    ended = kerberized.penstock(properties, "SASL_PLAINTEXT", "topics", "list")
    assert ended.returncode == 2
    assert "GSSAPI" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_other_clients_are_served_while_the_keytab_is_being_read(kerberized: Kerberized) -> None:
    """The keytab is a pipe: the login waits until somebody has written it."""
    keytab = kerberized.folder / "slow.keytab"
    with BlockingConnection("localhost", kerberized.ports["SLOW"]) as waiting:
        assert waiting.request(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
        asked = waiting.send(SaslAuthenticateRequest(auth_bytes=b"no ticket"), 1)
        pipe = eventually(lambda: open_for_reader(keytab), "the broker reads its keytab")
        assert pipe is not None
        try:
            plain = ("localhost", kerberized.ports["PLAINTEXT"])
            with VersionedClient.open(plain, client_id="tests", software="tests") as other:
                assert other.request(MetadataRequest(topics=[]), MetadataResponse).brokers
        finally:
            with ending_every_read(keytab):
                pipe.close()
                answer = waiting.receive(asked)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_broker_stops_while_a_keytab_is_being_read(realm: Realm, tmp_path: Path) -> None:
    """Its process stayed as long as the file system let it wait."""
    keytab, plain, sasl = tmp_path / "slow.keytab", find_free_port(), find_free_port()
    os.mkfifo(keytab)
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.jaas.config": jaas(keytab, BROKER),
    }
    with BrokerProcess(tmp_path / "data", port=plain, config=config, environment=realm.environment) as broker:
        with BlockingConnection("127.0.0.1", sasl) as waiting:
            assert waiting.request(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
            waiting.send(SaslAuthenticateRequest(auth_bytes=b"no ticket"), 1)
            pipe = eventually(lambda: open_for_reader(keytab), "the broker reads its keytab")
        broker.terminate()
        assert pipe is not None
        pipe.close()


def open_for_reader(path: Path) -> BinaryIO | None:
    """The pipe's other end, once there is a reader."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "wb")
    except OSError:
        return None


@contextmanager
def ending_every_read(path: Path) -> Iterator[None]:
    """Kerberos opens a keytab more than once. Each reader finds an empty one."""
    is_over = threading.Event()

    def end() -> None:
        while not is_over.wait(0.01):
            if (pipe := open_for_reader(path)) is not None:
                pipe.close()

    thread = threading.Thread(target=end)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_trail_tells_who_logged_in_and_why_not_when_logins_were_by_kerberos(kerberized: Kerberized) -> None:
    kerberized.run("act-as-admin", "SASL_PLAINTEXT", SERVICE)
    kerberized.run("ticket-twice", "SASL_PLAINTEXT", SERVICE)
    kerberized.run("ticket", "SASL_PLAINTEXT", "other")
    kerberized.run("ticket", "STALE", "stale")
    causes = ("it was shown before", "it is for another service", "the keytab is out of date")
    refusals = {("", False, f"Kerberos refuses the ticket: {cause}") for cause in causes}

    def told() -> bool:
        seen = {
            (each["authenticationInfo"]["principal"], decided["granted"], decided["rule"])
            for each in kerberized.logins()
            if (decided := each["authorizationInfo"])["operation"] == "GSSAPI"
        }
        return {("User:alice", True, ""), *refusals} <= seen

    eventually(told, "the trail is written", 20)


def test_record_is_copied_to_every_broker_when_brokers_log_in_at_each_other(
    kerberized: Kerberized, tmp_path: Path
) -> None:
    keytab = str(kerberized.realm.keytab(BROKER))
    assert kerberized.module("kerberos_cluster", keytab, str(tmp_path), client=BROKER) == "3"


def test_node_is_its_makers_alone_when_zookeeper_knows_clients_by_kerberos(
    kerberized: Kerberized, tmp_path: Path
) -> None:
    realm = kerberized.realm
    login = tmp_path / "jaas.conf"
    login.write_text(f"Server {{ {jaas(realm.keytab('zookeeper/localhost'), 'zookeeper/localhost')} }};")
    options = f"-Djava.security.auth.login.config={login} -Djava.security.krb5.conf={realm.config}"
    server = ZooKeeperProcess(
        tmp_path / "data",
        host="localhost",
        settings={"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
        environment={"JDK_JAVA_OPTIONS": options},
    )
    keytab = (f"{BROKER}@{REALM}", str(realm.keytab(BROKER)))
    with server:
        assert kerberized.module("kerberos_store", server.connect, "/mine", *keytab) == "written"
        assert kerberized.module("kerberos_store", server.connect, "/mine", client=BROKER) == "written"
        assert "another user made the node" in kerberized.module(
            "kerberos_store", server.connect, "/mine", client="alice"
        )
        # without a ticket
        assert "refuses our credentials" in kerberized.module("kerberos_store", server.connect, "/other")
