"""Brokers that made their own certificates and users, used by a client that we did not write."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import penstock
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.broker_options import StartOptions
from penstock.cli.broker_start import start_broker
from penstock.cli.errors import CliError, ExitCode
from penstock.local_cluster.errors import ClusterError
from penstock.security_setup.setup import SecureSetupError
from penstock.server.stores import METADATA_FILE
from penstock.testing.processes import BrokerProcess
from penstock.testing.pytest_plugin import KafkaFixture
from tests.certificates import new_directory
from tests.clients.support import librdkafka_can_log_in


def write_and_read(config: dict[str, Any], topic: str) -> bytes | None:
    failures: list[object] = []
    producer = Producer(config)
    producer.produce(topic, b"sealed", on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(20) == 0
    assert not failures
    consumer = Consumer({**config, "group.id": f"readers-of-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def test_record_arrives_when_the_broker_is_secure(secure_kafka: KafkaFixture) -> None:
    assert write_and_read(secure_kafka.client_config, secure_kafka.topic()) == b"sealed"


def test_client_is_refused_when_its_password_is_wrong_or_it_has_none(secure_kafka: KafkaFixture) -> None:
    assert not librdkafka_can_log_in({**secure_kafka.client_config, "sasl.password": "guess"})
    plain = {"bootstrap.servers": secure_kafka.client_config["bootstrap.servers"], "log_level": "0"}
    with pytest.raises(KafkaException):
        AdminClient(plain).list_topics(timeout=2)


def test_data_and_logins_are_there_when_a_secure_broker_starts_again(tmp_path: Path) -> None:
    with penstock.Broker(tmp_path / "data", secure=True) as broker:
        broker.create_topic("kept")
        assert write_and_read(broker.client_config, "kept") == b"sealed"
        password = broker.client_config["sasl.password"]
    with penstock.Broker(tmp_path / "data", secure=True) as broker:
        assert broker.client_config["sasl.password"] == password
        assert "kept" in AdminClient(broker.client_config).list_topics(timeout=10).topics


def test_data_stays_secure_when_the_next_start_says_nothing_and_opens_when_it_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with penstock.Broker(data, secure=True) as broker:
        broker.create_topic("kept")
    with penstock.Broker(data) as broker:
        assert broker.client_config["security.protocol"] == "SASL_SSL"
        assert "kept" in AdminClient(broker.client_config).list_topics(timeout=10).topics
    with penstock.Broker(data, secure=False) as broker:
        assert list(broker.client_config) == ["bootstrap.servers"]
        assert "kept" in AdminClient(broker.client_config).list_topics(timeout=10).topics


def test_command_keeps_data_secure_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with penstock.Broker(data, secure=True):
        pass
    with BrokerProcess(data) as process:
        plain: dict[str, Any] = {"bootstrap.servers": process.bootstrap_servers, "log_level": "0"}
        with pytest.raises(KafkaException):
            AdminClient(plain).list_topics(timeout=2)
        assert f"--command-config {data}.security/client.properties" in process.read_log()
    with BrokerProcess(data, arguments=["--insecure"]) as process:
        AdminClient({"bootstrap.servers": process.bootstrap_servers}).list_topics(timeout=20)
        assert f"{data}.security is left out" in process.read_log()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_moved_data_stays_secure_and_is_refused_when_its_certificates_and_users_are_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It started open to everybody, without a word."""
    with penstock.Broker(tmp_path / "data", secure=True) as broker:
        broker.create_topic("kept")
        assert mode(tmp_path / "data") == 0o700
        assert {mode(each) for each in (tmp_path / "data").glob(f"{METADATA_FILE}*")} == {0o600}
    moved = (tmp_path / "data").rename(tmp_path / "moved")
    with penstock.Broker(moved) as broker:
        assert broker.client_config["security.protocol"] == "SASL_SSL"
        assert "kept" in AdminClient(broker.client_config).list_topics(timeout=10).topics
    shutil.rmtree(tmp_path / "data.security")
    with pytest.raises(SecureSetupError, match="secure broker"), penstock.Broker(moved):
        pass
    assert start_broker(StartOptions(data=str(moved), listen="localhost:0")) == 2
    told = capsys.readouterr().err
    assert f"{moved}.security/client.properties" in told
    assert "--secure" in told


@pytest.mark.parametrize("lost", ["client.properties", "."])
def test_admin_can_log_in_when_a_secure_start_makes_lost_files_anew(tmp_path: Path, lost: str) -> None:
    data = tmp_path / "data"
    with penstock.Broker(data, secure=True) as broker:
        broker.create_topic("kept")
        password = broker.client_config["sasl.password"]
    (tmp_path / "data.security" / lost).resolve().rename(tmp_path / "elsewhere")
    with penstock.Broker(data, secure=True) as broker:
        assert broker.client_config["sasl.password"] != password
        assert "kept" in AdminClient(broker.client_config).list_topics(timeout=10).topics
        assert not librdkafka_can_log_in({**broker.client_config, "sasl.password": password})
    with penstock.Broker(data) as broker:
        assert "kept" in AdminClient(broker.client_config).list_topics(timeout=10).topics


def test_cluster_is_refused_at_once_when_it_was_secure_and_its_passwords_are_lost(tmp_path: Path) -> None:
    """Brokers tried for ten seconds to log in with passwords that were made up."""
    cluster = penstock.Cluster(2, tmp_path / "cluster", secure=True)
    cluster.prepare()
    assert cluster.setup is not None
    cluster.abandon()
    (tmp_path / "cluster" / "broker-1").mkdir()  # as it is once a broker has run
    security = tmp_path / "cluster" / "security"
    (security / "users.json").unlink()
    again = penstock.Cluster(2, tmp_path / "cluster")
    again.prepare()  # the credentials follow from the passwords
    assert again.setup is not None
    again.abandon()
    (security / "client.properties").unlink()
    with pytest.raises(ClusterError, match=r"missing: \S*client\.properties") as caught:
        penstock.Cluster(2, tmp_path / "cluster").prepare()
    assert "penstock users password admin" in caught.value.hint
    shutil.rmtree(security)
    for is_asked in (False, True):
        with pytest.raises(ClusterError, match=r"missing: .*broker\.properties") as caught:
            penstock.Cluster(2, tmp_path / "cluster", secure=is_asked).prepare()
        assert "from a copy" in caught.value.hint


def test_secure_brokers_replicate_and_serve_when_they_form_a_cluster() -> None:
    with penstock.Cluster(3, store="memory", secure=True) as cluster:
        admin = AdminClient(cluster.client_config)
        for future in admin.create_topics([NewTopic("shared", 3, 3)]).values():
            future.result(20)
        cluster.wait_until_in_sync()
        assert write_and_read(cluster.client_config, "shared") == b"sealed"


def test_command_line_connects_with_the_file_that_the_secure_start_names(tmp_path: Path) -> None:
    with penstock.Broker(tmp_path / "data", secure=True) as broker:
        result = subprocess.run(
            [
                *(sys.executable, "-m", "penstock.cli.main", "topics", "create", "mine"),
                *("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(broker.client_file)),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert "mine" in AdminClient(broker.client_config).list_topics(timeout=10).topics


def test_logins_are_in_the_audit_trail_whether_they_succeed_or_not(tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    with penstock.Broker(tmp_path / "data", config={"penstock.audit.file": str(trail)}, secure=True) as broker:
        AdminClient(broker.client_config).list_topics(timeout=10)
        wrong: dict[str, Any] = {**broker.client_config, "sasl.password": "guess", "log_level": "0"}
        with pytest.raises(KafkaException):
            AdminClient(wrong).list_topics(timeout=2)
    events = [json.loads(line) for line in trail.read_text().splitlines()]
    logins = [event["data"] for event in events if "login" in event["type"]]
    assert {each["authorizationInfo"]["granted"] for each in logins} == {True, False}
    assert "guess" not in trail.read_text()


WRONG_WAYS_IN = {
    "a wrong password": ({"sasl.password": "guess"}, "Authentication failed"),
    "no login": ({"security.protocol": "ssl"}, "wants another login"),
    "no TLS": ({"security.protocol": "sasl_plaintext"}, "has its listener this security.protocol?"),
    "neither": ({"security.protocol": "plaintext"}, "without TLS or a login"),
    "another authority": ({"ssl.ca.location": ""}, "its certificate is refused"),
}


@pytest.mark.parametrize("way", WRONG_WAYS_IN)
def test_command_says_at_once_what_is_wrong_when_the_broker_does_not_let_it_in(
    way: str, secure_kafka: KafkaFixture, tmp_path: Path
) -> None:
    """librdkafka tried again for 30 s, and then the connection had failed, whatever the reason was."""
    changed, told = WRONG_WAYS_IN[way]
    if "ssl.ca.location" in changed:
        changed = {"ssl.ca.location": str(new_directory(tmp_path / "another").trusted)}
    settings = {name: str(value) for name, value in secure_kafka.client_config.items()} | changed
    cluster = ClusterClient(settings.pop("bootstrap.servers"), settings)
    with pytest.raises(CliError, match=re.escape(told)) as caught:
        cluster.admin()
    assert caught.value.exit_code is ExitCode.UNREACHABLE
    assert "--command-config" in caught.value.hint or "security.protocol" in caught.value.message
