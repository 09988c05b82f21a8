"""A secure cluster of a build whose ZooKeeper was open, and whose nodes were at the root, is started by this one."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.security import OPEN_ACL_UNSAFE

import penstock
from penstock.local_cluster.directory import read_ports, security_directory
from penstock.security_setup.setup import SecureSetup
from proof.cluster.builds import run_by, unpack_build_before
from tests.integration.cluster.cluster_command import running
from tests.integration.cluster.stranger import stranger, stranger_at, try_everything

PATIENCE_S = 60.0


def found_cluster(build: Path, directory: Path) -> None:
    """As `penstock cluster start --secure` did it then, with a topic."""
    arguments = ("--secure", "--brokers", "1", "--port", "0", "--data", str(directory))
    with running(*arguments, environment=run_by(build)) as command:
        address = command.wait_for(r"Brokers    (\S+)")[1]
        command.wait_for("running  yes")
        setup = SecureSetup(security_directory(directory))
        assert setup.zookeeper_root == ""
        admin = AdminClient(setup.client_config(address))
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_S)
        with stranger(f"127.0.0.1:{read_ports(directory).zookeeper}") as client:
            assert client.get_acls("/")[0] == OPEN_ACL_UNSAFE, "anybody may delete what is below"
        command.interrupt()
        command.wait()


@pytest.mark.usefixtures("java")
def test_strangers_change_nothing_when_a_secure_cluster_from_before_is_started(tmp_path: Path) -> None:
    build = unpack_build_before(tmp_path / "before", 2)
    if build is None:
        pytest.skip("a whole clone has the build before in its history")
    found_cluster(build, tmp_path / "data")
    with penstock.Cluster(1, tmp_path / "data") as cluster:  # it stays secure by itself
        assert "t" in AdminClient(cluster.client_config).list_topics(timeout=PATIENCE_S).topics
        with stranger_at(cluster) as client:
            deeds = try_everything(client)
        cluster.create_topic("after", partitions=1, replication_factor=1)
    assert deeds.done == []
    assert deeds.read >= {"/brokers/topics/t", "/controller_epoch"}
    secrets = ("/config/users", "/config/brokers", "/delegation_token", "/penstock/")
    assert [path for path in deeds.read if path.startswith(secrets)] == []
