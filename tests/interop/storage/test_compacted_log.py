"""Kafka's own reader over segments that our cleaner wrote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apache_kafka.commands import run_command
from penstock.core.log_settings import LogSettings
from penstock.log.compaction.log_compaction import clean_log
from penstock.protocol.compression import Codec
from tests.unit.log.compacted import keyed, read_keyed
from tests.unit.log.support import NOW, Disk, append, end_transaction, transactional

COMPLAINTS = ("Mismatches", "Found timestamp mismatch", "Found out of order", "Index position", "does not match")


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Every codec, tombstones before and after their horizon, emptied batches, markers of both kinds."""
    settings = LogSettings(
        segment_bytes=20_000, index_interval_bytes=500, cleanup_policy=frozenset({"compact"}), delete_retention_ms=1_000
    )
    disk = Disk(tmp_path_factory.mktemp("cleaned") / "orders-0", settings=settings)
    log = disk.create()
    sequence = 0
    for now_ms in (NOW, NOW + 500, NOW + 1_200):
        for number in range(150):
            codec = list(Codec)[number % len(Codec)]
            pairs = [(f"k{(number * 7 + index) % 40}", f"v{number}" * 9) for index in range(5)]
            append(log, keyed(*pairs, codec=codec, timestamp=now_ms), keyed((f"gone{number % 30}", None)))
            if number % 25 == 0:
                append(log, transactional(sequence, 2))
                end_transaction(log, is_commit=number % 50 == 0)
                sequence += 2
        clean_log(log.compaction, now_ms)
    offsets = [offset for offset, _, _ in read_keyed(log)]
    log.close(clean=True)
    return disk.directory, offsets


def files(directory: Path, suffix: str) -> str:
    return ",".join(str(path) for path in sorted(directory.glob(f"*{suffix}")))


def test_every_record_is_read_when_a_compacted_log_is_dumped(cleaned: tuple[Path, list[int]]) -> None:
    directory, offsets = cleaned
    dumped = run_command("kafka-dump-log", "--files", files(directory, ".log"), "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in dumped.stdout
    records = [
        int(offset) for offset in re.findall(r"^\| offset: (\d+) (?!.*endTxnMarker)", dumped.stdout, re.MULTILINE)
    ]
    assert records == offsets
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", dumped.stdout)
    assert " count: 0 " in dumped.stdout  # an emptied batch


@pytest.mark.parametrize("check", ["--index-sanity-check", "--verify-index-only"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_index_fits_its_log_when_a_compacted_one_is_checked(
    cleaned: tuple[Path, list[int]], suffix: str, check: str
) -> None:
    checked = run_command("kafka-dump-log", "--files", files(cleaned[0], suffix), check).output
    assert [complaint for complaint in COMPLAINTS if complaint in checked] == []


def test_transaction_index_is_read_when_a_compacted_log_is_dumped(cleaned: tuple[Path, list[int]]) -> None:
    found = files(cleaned[0], ".txnindex")
    assert found
    assert "producerId: 7 firstOffset:" in run_command("kafka-dump-log", "--files", found).stdout
