"""A broker that cannot start says why in one line on stderr and ends with an exit code, without a traceback."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.testing.processes import BrokerProcess
from tests.integration.conftest import StartBroker

DATABASE = "penstock-metadata.db"


def start_in_vain(data_dir: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and what was said; the broker must say nothing on stdout, and only one line on stderr."""
    command = BrokerProcess(data_dir, arguments=arguments).command
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "num.partitions=0"], "num.partitions"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "log.cleanup.policy=burn"], "log.cleanup.policy"),
        (["--set", "listeners=SSL://127.0.0.1:0"], "SSL"),
        (["--set", "listeners=nonsense"], "listeners"),
        (["--set", "nonsense"], "key=value"),
        (["--metrics", "nonsense"], "penstock.metrics.listen"),
        (["--config", "/does/not/exist.properties"], "/does/not/exist.properties"),
    ],
)
def test_mistake_is_named_when_the_configuration_is_wrong(tmp_path: Path, arguments: list[str], message: str) -> None:
    code, said = start_in_vain(tmp_path / "data", *arguments)
    assert code == 2
    assert message in said
    assert not (tmp_path / "data").exists()


def test_file_is_named_when_it_stands_where_the_data_should_go(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    assert start_in_vain(tmp_path / "data") == (
        1,
        f"Error: the broker cannot start: {tmp_path}/data is a file, not a directory\n",
    )
    code, said = start_in_vain(tmp_path / "data" / "deeper")
    assert code == 1
    assert f"{tmp_path}/data is a file, not a directory" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_directory_is_named_when_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(0o500)
    code, said = start_in_vain(tmp_path / "data")
    assert code == 1
    assert str(tmp_path / "data") in said


@pytest.mark.parametrize("where", ["--listen", "--metrics"])
def test_port_is_named_when_somebody_has_it(tmp_path: Path, where: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = start_in_vain(tmp_path / "data", where, address)
    assert code == 1
    assert said.count(address) == 1
    assert said.lower().endswith(f"{address}: address already in use\n")


@pytest.mark.parametrize("address", ["203.0.113.7:9092", "no.such.host.invalid:9092"])
def test_address_is_named_when_it_is_not_ours(tmp_path: Path, address: str) -> None:
    code, said = start_in_vain(tmp_path / "data", "--listen", address)
    assert code == 1
    assert address in said


def test_port_is_refused_when_there_is_no_such_port(tmp_path: Path) -> None:
    code, said = start_in_vain(tmp_path / "data", "--metrics", "127.0.0.1:70000")
    assert code == 1
    assert "65535" in said


def _overwrite(data_dir: Path) -> None:
    (data_dir / DATABASE).write_bytes(os.urandom(20_000))


def _truncate(data_dir: Path) -> None:
    content = (data_dir / DATABASE).read_bytes()
    (data_dir / DATABASE).write_bytes(content[:5_000])


def _break_a_node(data_dir: Path) -> None:
    with sqlite3.connect(data_dir / DATABASE) as database:
        database.execute("UPDATE node SET data = X'7B' WHERE path = '/penstock/log/0000000001'")
    database.close()


def _make_it_anothers(data_dir: Path) -> None:
    with sqlite3.connect(data_dir / DATABASE) as database:
        database.execute("PRAGMA application_id = 77")
    database.close()


def _break_the_properties(data_dir: Path) -> None:
    (data_dir / "meta.properties").write_text("nonsense")


def _change_the_cluster(data_dir: Path) -> None:
    path = data_dir / "meta.properties"
    rows = path.read_text().splitlines()
    path.write_text("\n".join(f"cluster.id={'A' * 22}" if "cluster" in row else row for row in rows))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (_overwrite, DATABASE),
        (_truncate, DATABASE),
        (_break_a_node, "/penstock/log/0000000001"),
        (_make_it_anothers, DATABASE),
        (_break_the_properties, "meta.properties"),
        (_change_the_cluster, "cluster"),
    ],
)
def test_file_is_named_and_left_alone_when_it_is_damaged(
    start_broker: StartBroker, tmp_path: Path, damage: Callable[[Path], None], named: str
) -> None:
    start_broker().terminate()
    data_dir = tmp_path / "data"
    damage(data_dir)
    before = (data_dir / "meta.properties").read_bytes()
    code, said = start_in_vain(data_dir)
    assert code == 1
    assert named in said
    assert (data_dir / "meta.properties").read_bytes() == before
    assert start_in_vain(data_dir) == (code, said), "the second try says the same: the first left no lock behind"
