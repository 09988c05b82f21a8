"""Faults against a real cluster under load; see proof.cluster.rounds for what runs and what is checked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.testing.history import Outcome
from proof.cluster.disks import MountedDisk
from proof.cluster.network import can_make_namespaces
from proof.cluster.rounds import NAMES, SECURED_NAMES, ClusterRounds
from proof.frame import main
from proof.kinds import KINDS

# One of each family: a process that hangs and the store; a crash within a move and a network for brokers that have to
# log in to each other again. The others are for the soak.
SHORT_MIX = ("pause-long", "zookeeper-cut")
SHORT_SECURED_MIX = ("reassign-kill", "isolate")


pytestmark = pytest.mark.usefixtures("java")


def run_rounds(directory: Path, rounds: int, faults: Sequence[str], *, is_secured: bool = False) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"cluster rounds with seed {seed}")  # shown by pytest when the test fails
    report = ClusterRounds(directory, rounds, seed, faults, say=print, is_secured=is_secured).run()
    print(report)
    assert report.is_sound, str(report)
    assert set(report.faults) == set(faults) - set(report.skipped)
    assert report.acknowledged > 10 * rounds
    assert report.commits > rounds
    assert report.transactions[Outcome.OK] > rounds
    assert report.compared > 2


def test_nothing_acknowledged_is_lost_when_a_cluster_meets_one_fault_after_another(tmp_path: Path) -> None:
    run_rounds(tmp_path, len(SHORT_MIX), SHORT_MIX)


def test_nothing_acknowledged_is_lost_when_brokers_that_know_each_other_by_tls_and_scram_meet_faults(
    tmp_path: Path,
) -> None:
    run_rounds(tmp_path, len(SHORT_SECURED_MIX), SHORT_SECURED_MIX, is_secured=True)


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_when_a_secured_cluster_meets_each_fault_ten_times(tmp_path: Path) -> None:
    run_rounds(tmp_path, 10 * len(SECURED_NAMES), SECURED_NAMES, is_secured=True)


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_when_a_cluster_meets_each_fault_a_hundred_times(tmp_path: Path) -> None:
    run_rounds(tmp_path, 100 * len(NAMES), NAMES)


@pytest.mark.parametrize("is_kept", [True, False])
def test_files_on_a_disk_in_memory_stay_when_they_are_to_be_kept(tmp_path: Path, is_kept: bool) -> None:
    if not can_make_namespaces():
        pytest.skip("a file system is mounted by root alone")
    disk = MountedDisk(tmp_path / "broker-1")
    (tmp_path / "broker-1" / "orders-0").mkdir()
    (tmp_path / "broker-1" / "orders-0" / "0.log").write_text("records")
    disk.close(is_kept=is_kept)
    found = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert found == (["broker-1/orders-0/0.log"] if is_kept else [])
    assert (tmp_path / "broker-1").is_dir()


def test_command_names_the_faults_there_are_when_it_is_given_another() -> None:
    with pytest.raises(SystemExit, match=r"no fault is called earthquake; there are kill, .*recreate-topic, .*upgrade"):
        main(KINDS, ["cluster", "--fault", "earthquake"])
