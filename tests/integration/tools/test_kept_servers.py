"""A failing test of a cluster, in a pytest of its own: what it says, and what is left of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import keeping

CONFTEST = """
from tests import keeping

def pytest_configure(config):
    keeping.register(config)
"""

# The cluster of the second test and the broker of the third are removed by their own blocks, before the test ends.
SAMPLE = """
import penstock
import pytest
from penstock.testing.processes import BrokerProcess

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("shared") / "data") as broker:
        yield broker

def test_that_passes(shared, tmp_path):
    (tmp_path / "written").touch()
    with penstock.Broker() as broker:
        broker.create_topic("passed", 1)

def test_of_a_cluster(shared, tmp_path):
    (tmp_path / "written").write_text("here")
    with penstock.Cluster(1) as cluster:
        cluster.create_topic("lost", 1)
        assert cluster.controller_id() == 7

def test_of_a_broker_inside():
    with penstock.Broker() as broker:
        broker.create_topic("inside", 1)
        raise ValueError
"""


pytestmark = pytest.mark.usefixtures("java")


def test_data_and_logs_are_kept_and_shown_when_a_test_of_a_cluster_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    kept, scratch = tmp_path / "kept", tmp_path / "scratch"
    scratch.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        keeping.PLACE: str(kept),
        "TMPDIR": str(scratch),
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}", "."]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    said = done.stdout
    assert "2 failed, 1 passed" in said, said
    inside, cluster = sorted(kept.iterdir())
    assert re.fullmatch(r"test_of_a_broker_inside-\d{8}-\d{6}", inside.name)
    assert f"is kept in {cluster} (" in said
    assert f"is kept in {inside} (" in said
    # The logs of the shared broker and of the cluster's two servers.
    assert len(re.findall("the last lines of .*shared0/data.process.log", said)) == 2
    assert re.search("broker 1 has ended; the last lines of .*broker-1.log:\n    penstock broker 1 is ready at ", said)
    assert "ZooKeeper has ended; the last lines of" in said
    # Their data: of the test's own directory, of the shared broker, and of the temporary cluster.
    assert (cluster / "test_of_a_cluster0" / "written").read_text() == "here"
    assert (cluster / "shared0" / "data").is_dir()
    (temporary,) = cluster.glob("penstock-cluster-*")
    assert (temporary / "broker-1" / "lost-0").is_dir()
    assert (temporary / "zookeeper" / "zoo.cfg").exists()
    (broker,) = inside.glob("penstock-*")
    assert (broker / "data" / "inside-0").is_dir()
    # Nothing else is left.
    assert not list(scratch.glob("penstock-*"))
