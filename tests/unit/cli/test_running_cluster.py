from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.cli.cluster_start import Interrupts
from penstock.cli.output import render_plain
from penstock.cli.views.running_cluster import running_table, view_of
from penstock.core.properties import ConfigMapping
from penstock.local_cluster.state import ClusterCounts


@dataclass
class FakeBroker:
    node_id: int
    pid: int | None = 100
    is_paused: bool = False
    host: str = "127.0.0.1"
    log_path: Path | None = None
    unasked_end: str = ""

    @property
    def port(self) -> int:
        return 9091 + self.node_id

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self.pid is not None

    def configure(self, config: ConfigMapping) -> None: ...

    def spawn(self) -> None: ...

    def wait_until_ready(self) -> None: ...

    def stop(self) -> None: ...

    def take_over(self) -> None: ...

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


def state(controller_id: int = 1, under_replicated: int = 0) -> ClusterCounts:
    return ClusterCounts(
        controller_id, frozenset({1, 2}), {"t": 6}, under_replicated, 0, 0, {1: 4, 2: 2}, {3: under_replicated}
    )


def test_each_broker_has_its_line_when_the_cluster_is_shown() -> None:
    brokers = [
        FakeBroker(1),
        FakeBroker(2, is_paused=True),
        FakeBroker(3, pid=None),
        FakeBroker(4),
        FakeBroker(5, None),
    ]
    view = view_of(list(brokers), {1: state(under_replicated=2), 3: None, 4: None, 5: state()})
    assert render_plain(running_table(view)) == (
        "ID  ADDRESS         PROCESS  STATE              CONTROLLER  LEADS  LAGGING\n"
        " 1  127.0.0.1:9092      100  running            yes             4        0\n"
        " 2  127.0.0.1:9093      100  paused                             2        0\n"
        " 3  127.0.0.1:9094        -  ended                              0        2\n"
        " 4  127.0.0.1:9095      100  does not answer                    0        0\n"
        " 5  127.0.0.1:9096        -  started elsewhere                  0        0\n"
    )
    assert view.summary == "Topics: 1, partitions: 6 (2 under-replicated, 0 offline)"
    assert not view.is_over


def test_controller_counts_when_brokers_tell_different_things() -> None:
    view = view_of([FakeBroker(1), FakeBroker(2)], {1: state(2), 2: state(2, under_replicated=5)})
    assert view.state is not None
    assert view.state.under_replicated == 5


def test_cluster_is_over_when_no_broker_is_left() -> None:
    view = view_of([FakeBroker(1, pid=None)], {1: None})
    assert view.is_over
    assert view.summary == "No broker answers."
    assert "-" in render_plain(running_table(view))


def test_view_is_the_same_when_nothing_has_changed() -> None:
    assert view_of([FakeBroker(1)], {1: state()}) == view_of([FakeBroker(1)], {1: state()})
    assert view_of([FakeBroker(1)], {1: state()}) != view_of([FakeBroker(1)], {1: state(under_replicated=1)})


def test_start_is_broken_off_when_the_first_signal_comes() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.count == 2


def test_second_signal_interrupts_and_later_ones_do_not_when_the_cluster_runs() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        interrupts.raise_at = 2
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.count == 1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
