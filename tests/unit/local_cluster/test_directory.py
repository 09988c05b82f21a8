from __future__ import annotations

from pathlib import Path

import pytest

from penstock.local_cluster.directory import ClusterDirectory, Ports
from penstock.local_cluster.errors import ClusterError


def test_ports_come_back_when_the_directory_is_opened_again(tmp_path: Path) -> None:
    ports = Ports({1: 7001, 2: 7002}, 7000)
    for expected in (Ports(), ports):
        directory = ClusterDirectory.open(tmp_path / "data")
        assert directory.read_ports() == expected
        directory.write_ports(ports)
        directory.close()


def test_second_user_is_refused_when_the_directory_is_open(tmp_path: Path) -> None:
    directory = ClusterDirectory.open(tmp_path)
    with pytest.raises(ClusterError, match="in use by another cluster"):
        ClusterDirectory.open(tmp_path)
    directory.close()
    ClusterDirectory.open(tmp_path).close()


def test_nothing_is_left_when_the_directory_was_temporary() -> None:
    directory = ClusterDirectory.open(None)
    directory.write_ports(Ports({1: 7001}))
    assert directory.path.is_dir()
    directory.close()
    assert not directory.path.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"brokers": {"one": 1}, "zookeeper": null}', '{"brokers": []}'])
def test_file_is_named_when_it_tells_no_ports(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    directory = ClusterDirectory.open(tmp_path)
    with pytest.raises(ClusterError, match=r"cluster\.json does not tell"):
        directory.read_ports()
    directory.close()


def test_reason_is_told_when_the_directory_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterError, match="file"):
        ClusterDirectory.open(tmp_path / "file")
