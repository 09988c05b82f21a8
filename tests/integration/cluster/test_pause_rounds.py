"""ZooKeeper and a broker stand still; see proof.pauses.rounds for what runs and what is checked."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

import penstock
from proof.fleet.streams import STREAM_KINDS, encode_streamed
from proof.pauses.rounds import BUSY, PAUSES_S, PauseRounds
from proof.pauses.stage import BROKERS, Pausable, PenstockStage
from proof.verdict import DUPLICATED

IDEMPOTENT = next(index for index, kind in enumerate(STREAM_KINDS) if kind.name == "idempotent")

# Just longer than a lease and a session of 2 s: both end in the pause.
SHORT_PAUSE_S = 2.1


def run_rounds(directory: Path, rounds: int, pauses_s: Sequence[float], busy: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"pause rounds with seed {seed}")  # shown by pytest when the test fails
    kept_in = directory / "bad"
    report = PauseRounds(directory, rounds, seed, busy=busy, pauses_s=pauses_s, kept_in=kept_in, say=print).run()
    print(report)
    assert report.is_sound, str(report)
    assert report.rounds == rounds
    assert report.acknowledged == report.sent > 100 * rounds
    assert report.library["refused"] > 0  # the pauses were felt


def test_each_record_is_there_once_when_zookeeper_and_a_broker_stand_still(tmp_path: Path) -> None:
    run_rounds(tmp_path, 2, [SHORT_PAUSE_S], busy=0)


@pytest.mark.soak
def test_each_record_is_there_once_when_zookeeper_and_a_broker_stand_still_two_hundred_times(tmp_path: Path) -> None:
    run_rounds(tmp_path, 200, PAUSES_S, BUSY)


class Stumbling:
    """In place of a process: its pause is a second copy of a record."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers})

    def pause(self) -> None:
        self._producer.produce("paused-1", encode_streamed(IDEMPOTENT, 0), partition=0)
        assert self._producer.flush(30) == 0

    def resume(self) -> None:
        """Nothing is left to do."""


class StumblingStage(PenstockStage):
    """In memory: nothing can be paused here, and nobody has to wait for anything."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._cluster = penstock.Cluster(BROKERS, store="memory")
        directory.mkdir()
        (directory / "broker-1.log").write_text("what it logged")
        (directory / "00000000000000000000.index").write_text("can be made again")

    @property
    def coordination(self) -> Pausable:
        return Stumbling(self.bootstrap_servers)

    @property
    def brokers(self) -> Mapping[int, Pausable]:
        return {1: Stumbling(self.bootstrap_servers)}


def test_all_that_shows_it_is_kept_when_a_record_came_more_than_once(tmp_path: Path) -> None:
    kept_in = tmp_path / "bad"
    said: list[str] = []
    report = PauseRounds(
        tmp_path, 1, seed=7, make_stage=StumblingStage, busy=0, pauses_s=[0.0], kept_in=kept_in, say=said.append
    ).run()
    assert not report.is_sound
    (text,) = report.findings[DUPLICATED]
    assert text.startswith("round 1: duplicate: paused-1-0: 'record 0 of idempotent' is at offsets 0, ")
    assert text.count("(producer -1 epoch -1 sequence -1, ") == 2
    (kept,) = report.kept
    assert said[-1] == f"kept in {kept}"
    assert kept.parent == kept_in
    assert (kept / "findings.txt").read_text() == f"duplicated: {text.removeprefix('round 1: ')}\n"
    assert "delivered" in (kept / "librdkafka.log").read_text()
    assert (kept / "paused-1-0.txt").read_text().count("record 0 of idempotent at offset") == 3
    assert [path.name for path in (kept / "stage").iterdir()] == ["broker-1.log"]
