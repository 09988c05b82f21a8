"""Every file operation fails once; see proof.disk.rounds for what runs and what is checked."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from proof.disk.rounds import DiskRounds
from tests.clients.confluent import admin_of, create_topic, produce, producer_of, read_topic, values
from tests.integration.served import served

# One for each kind of operation, and a few more.
FIXED_ROUNDS, FIXED_SEED = 20, 20_261_115


def run_rounds(root: Path, rounds: int, seed: int) -> None:
    print(f"disk rounds with seed {seed}")  # shown by pytest when the test fails
    report = DiskRounds(root, rounds, seed, say=print).run()
    print(report.table())
    print(report)
    assert report.is_sound, str(report)
    assert report.rounds == rounds
    assert report.missed <= rounds // 10, "too many planned operations never came"
    assert report.acknowledged > 100 * rounds


def test_nothing_acknowledged_is_lost_when_each_kind_of_operation_fails(tmp_path: Path) -> None:
    run_rounds(tmp_path, FIXED_ROUNDS, FIXED_SEED)


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_when_two_hundred_operations_fail(tmp_path: Path) -> None:
    run_rounds(tmp_path, 200, random.SystemRandom().randrange(2**32))


class TestFoundByTheRounds:
    def test_records_are_there_again_when_a_directory_could_not_be_opened_at_one_start(self, tmp_path: Path) -> None:
        """No empty log is made in another directory for a partition that may be in the failing one."""
        directories, files = [tmp_path / "one", tmp_path / "two"], FaultyFiles()
        topics = [f"topic-{number}" for number in range(4)]
        with served(directories, files) as server:
            for topic in topics:
                create_topic(server.bootstrap_servers, name=topic)
                produce(producer_of(server.bootstrap_servers), topic, [topic.encode()])
        files.fail(Fault.on("list", "/two", errno.EIO))
        with served(directories, files) as server:
            files.heal()
            servers = server.bootstrap_servers
            away = [topic for topic in topics if (tmp_path / "two" / f"{topic}-0").is_dir()]
            assert 0 < len(away) < len(topics)
            for topic in topics:
                assert (tmp_path / "one" / f"{topic}-0").is_dir() is (topic not in away)
            for topic in set(topics) - set(away):
                assert values(read_topic(servers, topic, 1)) == [topic.encode()]
            with pytest.raises(KafkaException):
                produce(producer_of(servers, message_timeout_ms=1_000), away[0], [b"x"])
            created = create_topic(servers)  # what is new can only be new
            assert (tmp_path / "one" / f"{created}-0").is_dir()
            assert admin_of(servers).list_topics(timeout=10).topics[away[0]].partitions[0].error is not None
        with served(directories, files) as server:
            for topic in topics:
                assert values(read_topic(server.bootstrap_servers, topic, 1)) == [topic.encode()]
