"""penstock.Cluster: processes that start together, can be hurt, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

import penstock
from penstock.local_cluster.cluster import stopping_order
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.members import ClusterBroker
from penstock.local_cluster.process_members import ProcessMembers
from penstock.processes.server_process import ServerProcessError
from penstock.protocol.errors import ApiError
from tests.clients.confluent import produce, producer_of, read_topic, values


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids_of(cluster: penstock.Cluster) -> list[int]:
    members = cluster.members
    assert isinstance(members, ProcessMembers)
    assert members.zookeeper is not None
    return [members.zookeeper.pid, *(broker.pid for broker in members.brokers if broker.pid is not None)]


def let_die(broker: ClusterBroker) -> None:
    """As if it had crashed: the cluster did not ask for it."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    while broker.is_running:
        time.sleep(0.01)


@pytest.mark.usefixtures("java")
class TestProcesses:
    def test_records_and_ports_stay_when_the_cluster_is_hurt_and_started_again(self, tmp_path: Path) -> None:
        with penstock.Cluster(1, tmp_path / "data", {"num.partitions": 2}) as cluster:
            servers = cluster.bootstrap_servers
            assert cluster.controller_id() == 1
            cluster.create_topic("t", partitions=1)
            produce(producer_of(servers), "t", [b"kept"])
            (broker,) = cluster.brokers
            first = broker.pid
            cluster.kill(1)
            assert (broker.pid, broker.is_running) == (None, False)
            cluster.start_broker(1)
            cluster.wait_until_ready()
            assert broker.pid not in (None, first)
            cluster.pause(1)
            assert broker.is_paused
            cluster.resume(1)
            cluster.wait_until_in_sync()
            cluster.pause(1)
            cluster.stop_broker(1)
            cluster.restore()
            assert values(read_topic(servers, "t", 1)) == [b"kept"]
            pids = pids_of(cluster)
        assert not any(is_alive(pid) for pid in pids)
        with penstock.Cluster(1, tmp_path / "data") as cluster:
            assert cluster.bootstrap_servers == servers
            assert values(read_topic(servers, "t", 1)) == [b"kept"]

    def test_nothing_is_left_when_the_data_was_temporary(self) -> None:
        with penstock.Cluster(1) as cluster:
            pids = pids_of(cluster)
            assert cluster._directory is not None
            path = cluster._directory.path
            assert (path / "broker-1").is_dir()
        assert not path.exists()
        assert not any(is_alive(pid) for pid in pids)

    def test_log_of_the_broker_is_shown_and_nothing_is_left_when_one_does_not_start(self, tmp_path: Path) -> None:
        cluster = penstock.Cluster(2, tmp_path / "data")
        cluster.prepare()
        (tmp_path / "data" / "broker-1").write_text("where the directory should be")
        members = cluster.members
        assert isinstance(members, ProcessMembers)
        with pytest.raises(ServerProcessError, match=r"(?s)broker 1 ended with exit code 1.*broker-1"):
            cluster.start()
        assert members.zookeeper is not None
        assert not members.zookeeper.is_running
        assert not any(broker.is_running for broker in members.brokers)
        with pytest.raises(RuntimeError, match="not running"):
            _ = cluster.brokers

    def test_leaving_the_block_is_an_error_when_a_broker_ended_by_itself(self) -> None:
        cluster = penstock.Cluster(1)
        cluster.start()
        let_die(cluster.brokers[0])
        with pytest.raises(ClusterError, match="broker 1 ended with signal SIGKILL"):
            cluster.__exit__(None, None, None)

    def test_failure_of_the_test_comes_first_when_a_broker_ended_too(self) -> None:
        cluster = penstock.Cluster(1)
        cluster.start()
        let_die(cluster.brokers[0])
        failure = ValueError("mine")
        cluster.__exit__(ValueError, failure, None)
        assert "SIGKILL" in failure.__notes__[0]


class TestMemory:
    def test_topics_outlive_a_broker_when_the_store_is_in_memory(self) -> None:
        before = threading.active_count()
        with penstock.Cluster(1, store="memory") as cluster:
            cluster.create_topic("t", 2, config={"retention.ms": 1_000_000})
            with pytest.raises(ApiError):
                cluster.create_topic("t")
            cluster.stop_broker(1)
            assert not cluster.brokers[0].is_running
            cluster.start_broker(1)
            cluster.wait_until_ready()
            state = cluster.states()[1]
            assert state is not None
            assert state.topics == {"t": 2}
            cluster.delete_topic("t")
            cluster.delete_topic("t")
            assert cluster._directory is not None
            path = cluster._directory.path
        assert not path.exists()
        assert threading.active_count() == before

    def test_nothing_is_left_when_a_broker_does_not_start(self) -> None:
        before = threading.active_count()
        cluster = penstock.Cluster(2, store="memory")
        cluster.prepare()
        with (
            socket.create_server((cluster.broker(2).host, cluster.broker(2).port)),
            pytest.raises(OSError, match="cannot listen"),
        ):
            cluster.start()
        assert threading.active_count() == before

    def test_broker_cannot_be_killed_or_paused_when_it_is_no_process(self) -> None:
        with penstock.Cluster(1, store="memory") as cluster:
            for hurt in (cluster.kill, cluster.pause, cluster.resume):
                with pytest.raises(ClusterError, match='store="zookeeper"'):
                    hurt(1)

    def test_directory_is_refused_when_nothing_will_be_kept(self, tmp_path: Path) -> None:
        with pytest.raises(ClusterError, match="keeps nothing"):
            penstock.Cluster(data_dir=tmp_path, store="memory")


def test_broker_is_refused_when_there_is_no_such_node() -> None:
    with penstock.Cluster(1, store="memory") as cluster, pytest.raises(ClusterError, match="no broker 7"):
        cluster.stop_broker(7)


def test_cluster_says_how_to_start_it_when_it_is_not_running() -> None:
    with pytest.raises(RuntimeError, match="start"):
        _ = penstock.Cluster().bootstrap_servers


def assert_all_agree(cluster: penstock.Cluster, controller: int) -> None:
    states = cluster.states()
    assert len(states) == sum(broker.is_running for broker in cluster.brokers)
    for state in states.values():
        assert state is not None
        assert (state.controller_id, state.broker_ids) == (controller, frozenset(states))


class TestThreeBrokers:
    def test_leaders_move_and_the_rest_agrees_when_a_broker_of_a_cluster_in_memory_stops(self) -> None:
        with penstock.Cluster(3, store="memory") as cluster:
            assert_all_agree(cluster, cluster.controller_id())
            cluster.create_topic("t", partitions=6)
            state = cluster.states()[3]
            assert state is not None
            assert state.led == {1: 2, 2: 2, 3: 2}
            controller = cluster.controller_id()
            cluster.stop_broker(controller)
            cluster.wait_until_ready()
            assert cluster.controller_id() != controller
            assert_all_agree(cluster, cluster.controller_id())
            cluster.restore()
            assert_all_agree(cluster, cluster.controller_id())

    @pytest.mark.usefixtures("java")
    def test_another_controller_is_elected_when_one_is_killed_or_paused(self, tmp_path: Path) -> None:
        with penstock.Cluster(3, tmp_path / "data") as cluster:
            cluster.create_topic("t", partitions=6, replication_factor=3, config={"retention.ms": 1_000_000})
            first = cluster.controller_id()
            cluster.kill(first)
            cluster.wait_until_ready()
            second = cluster.controller_id()
            assert second != first
            assert_all_agree(cluster, second)
            cluster.start_broker(first)
            cluster.wait_until_ready()
            assert_all_agree(cluster, second)
            assert stopping_order(cluster)[-1].node_id == second
            cluster.pause(second)  # the connection to it stays open
            cluster.create_topic("made-meanwhile")
            assert cluster.controller_id() != second
            cluster.resume(second)
            cluster.wait_until_ready()
