"""One command asks another by files."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.local_cluster.directory import ClusterDirectory
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.requests import RequestBox, RestartRequest

PATIENCE_S = 30.0


def test_request_is_refused_when_no_cluster_runs_on_the_directory(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no cluster runs"):
        RequestBox(tmp_path).ask_restart(1, {}, PATIENCE_S)
    ClusterDirectory.open(tmp_path).close()
    with pytest.raises(ClusterError, match="no cluster runs"):
        RequestBox(tmp_path).ask_restart(1, {}, PATIENCE_S)


@pytest.mark.parametrize("error", ["", "the broker does not want to"])
def test_asker_hears_what_came_of_it_when_the_request_is_answered(tmp_path: Path, error: str) -> None:
    directory = ClusterDirectory.open(tmp_path)
    taken: list[RestartRequest] = []

    def serve() -> None:
        box = RequestBox(tmp_path)
        while not taken:
            request = box.take()
            if request is not None:
                taken.append(request)
                box.answer(request.request_id, error)

    owner = threading.Thread(target=serve)
    owner.start()
    try:
        RequestBox(tmp_path).ask_restart(2, {"num.partitions": "5"}, PATIENCE_S)
        heard = ""
    except ClusterError as problem:
        heard = problem.message
    owner.join(PATIENCE_S)
    assert heard == error
    assert (taken[0].node_id, taken[0].config) == (2, {"num.partitions": "5"})
    assert list((tmp_path / "requests").iterdir()) == []
    directory.close()


def test_requests_of_an_earlier_run_and_broken_ones_are_nobodys(tmp_path: Path) -> None:
    box = RequestBox(tmp_path)
    assert box.take() is None
    (tmp_path / "requests").mkdir()
    (tmp_path / "requests" / ".b.request").write_text('{"restart": 1, "config": {}}')  # is being written
    assert box.take() is None
    (tmp_path / "requests" / ".b.request").unlink()
    (tmp_path / "requests" / "a.request").write_text('{"restart": 1}')
    assert box.take() is None
    assert "cannot be understood" in (tmp_path / "requests" / "a.answer").read_text()
    box.clear()
    assert list((tmp_path / "requests").iterdir()) == []
