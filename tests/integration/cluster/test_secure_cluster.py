"""A cluster that made its own certificates and users: killed, restarted, enlarged, with its certificates replaced."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

import penstock
from penstock.security_setup.setup import SecureSetup
from tests.clients.cli_runner import Cli
from tests.clients.support import eventually
from tests.integration.cluster.application import Application, check
from tests.integration.cluster.stranger import stranger_at, try_everything

CONFIG = {"offsets.topic.num.partitions": 3}
PATIENCE_S = 60.0


def application(cluster: penstock.Cluster) -> Application:
    cluster.create_topic("t", partitions=6, replication_factor=3)
    return Application(cluster.bootstrap_servers, "t", cluster.client_config)


def setup_of(cluster: penstock.Cluster) -> SecureSetup:
    assert cluster.setup is not None
    return cluster.setup


@pytest.mark.usefixtures("java")
def test_nothing_is_lost_when_a_broker_of_a_secure_cluster_is_killed_and_another_one_is_added(tmp_path: Path) -> None:
    with penstock.Cluster(3, tmp_path, CONFIG, secure=True) as cluster:
        with application(cluster) as program:
            eventually(lambda: len(program.sent) > 50, "records are written")
            cluster.kill(cluster.controller_id())
            cluster.restore()
            written = len(program.sent)
            eventually(lambda: len(program.sent) > written + 50, "writing goes on")
            cluster.wait_until_in_sync()
            done = Cli("").run("cluster", "restart", "--check", "1", "--data", str(tmp_path))
            assert "Broker 1 may stop" in done.err
        check(program)
        check_strangers(cluster)
    with penstock.Cluster(4, tmp_path, CONFIG) as cluster:  # it stays secure by itself
        cluster.create_topic("on-four", partitions=1, replication_factor=4)
        cluster.wait_until_in_sync()
        assert AdminClient(cluster.client_config).list_topics(timeout=PATIENCE_S).topics.keys() >= {"t", "on-four"}


def check_strangers(cluster: penstock.Cluster) -> None:
    """Somebody who reaches ZooKeeper without a login changes nothing and reads no secret."""
    with stranger_at(cluster) as client:
        deeds = try_everything(client)
    assert deeds.done == []
    root = "/penstock-cluster"
    assert deeds.read >= {f"{root}/brokers/topics/t", f"{root}/controller_epoch"}
    secrets = tuple(f"{root}{path}" for path in ("/config/users", "/config/brokers", "/delegation_token", "/penstock"))
    assert [path for path in deeds.read if path.startswith(secrets)] == []


def test_application_hears_of_nothing_when_a_secure_cluster_is_restarted() -> None:
    with penstock.Cluster(3, store="memory", config=CONFIG, secure=True) as cluster:
        with application(cluster) as program:
            cluster.restart({"num.partitions": 7})
        check(program)


class Newcomers:
    """Clients that connect anew all the time, each with the certificates of the moment."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.served = 0
        self.errors: list[str] = []

    def _run(self) -> None:
        settings = {**self._settings, "log_level": 0, "error_cb": lambda error: self.errors.append(str(error))}
        while not self._is_over.is_set():
            try:
                AdminClient(settings).list_topics(timeout=PATIENCE_S)
            except KafkaException as error:
                self.errors.append(str(error))
            self.served += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)


@pytest.mark.soak
def test_nobody_is_refused_when_one_command_replaces_the_authority_of_a_cluster_under_load() -> None:
    """Brokers look at their files every 5 s: the command waits for that after each step. Meanwhile clients come and go,
    and an application that trusts the authority from before goes on. `test_tls_cluster` has the same without the waits.
    """
    with penstock.Cluster(3, store="memory", config=CONFIG, secure=True) as cluster:
        directory = setup_of(cluster).certificates_path
        before = (directory / "trusted.pem").read_text(), (directory / "broker-1.pem").read_text()
        with application(cluster) as program, Newcomers(cluster.client_config) as newcomers:
            Cli("").run("certificates", "rotate", "--ca", "--directory", str(directory))
        after = (directory / "trusted.pem").read_text(), (directory / "broker-1.pem").read_text()
        check(program)
        assert newcomers.errors == []
        assert newcomers.served > 10
        assert after[0] != before[0]
        assert after[0].count("BEGIN CERTIFICATE") == 1
        assert after[1] != before[1]
        cluster.restart()  # every connection is new, with the new authority alone
        cluster.wait_until_in_sync()
        assert "t" in AdminClient(cluster.client_config).list_topics(timeout=PATIENCE_S).topics
