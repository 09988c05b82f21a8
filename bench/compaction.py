"""Producing while a large log is compacted, against producing while nothing else happens."""

from __future__ import annotations

import functools
import random
import time
from pathlib import Path

import confluent_kafka.admin
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.contenders import CpuMeter, data_directory
from bench.errors import BenchError
from bench.loads import PATIENCE_S, PRODUCE_CHUNK, Figures, Scale, client_settings, produce, topic_of
from bench.preload import preload
from penstock.protocol.records import Record, build_batch
from penstock.testing.processes import ServerProcess

VALUE_BYTES = 1024
RECORDS_PER_BATCH = 60
# Each key is written about this often, so about this part of the log stays.
REPETITIONS = 5
SEGMENTS = 10
UNDISTURBED_CHUNKS = 3
# Of producing, where the cleaner takes longer; it then finishes by itself.
MAX_LOAD_SECONDS = 40.0

# Topics of the load are deleted as it goes on, or a slow cleaner would fill the disk.
LOAD_TOPIC = {"file.delete.delay.ms": "1000"}


@functools.lru_cache(maxsize=2)
def keyed_batches(megabytes: int) -> list[bytes]:
    """The same batches for every broker and every round: records of random keys, of which some occur twice."""
    count = megabytes * 1_000_000 // VALUE_BYTES // RECORDS_PER_BATCH * RECORDS_PER_BATCH
    draw = random.Random(1)
    value = bytes(VALUE_BYTES)
    now_ms = time.time_ns() // 1_000_000
    batches = []
    for _ in range(count // RECORDS_PER_BATCH):
        keys = [draw.randrange(2 * count) for _ in range(RECORDS_PER_BATCH)]
        batches.append(build_batch([Record(b"key-%08d" % key, value, timestamp=now_ms) for key in keys]))
    return batches


class Compacted:
    """A topic made compactable when we choose; the cleaner is done when every sealed segment is replaced."""

    def __init__(self, server: ServerProcess, topic: str) -> None:
        self._server = server
        self._topic = topic
        self._directory = data_directory(server) / f"{topic}-0"
        self._before = _segments(self._directory)
        self._before.pop(max(self._before))  # the active one stays as it is
        if not self._before:
            raise BenchError(f"{topic} has no sealed segment")

    def begin(self) -> None:
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        resource.add_incremental_config(
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        )
        admin = confluent_kafka.admin.AdminClient(client_settings(self._server))
        [altered] = admin.incremental_alter_configs([resource]).values()
        altered.result(PATIENCE_S)

    def is_done(self) -> bool:
        now = _segments(self._directory)
        return all(now.get(name) != inode for name, inode in self._before.items())


def _segments(directory: Path) -> dict[str, int]:
    """Name -> inode: a cleaned segment is a new file under an old name."""
    found = {}
    for path in directory.glob("*.log"):
        try:
            found[path.name] = path.stat().st_ino
        except FileNotFoundError:  # replaced while we looked
            found[path.name] = -1
    return found


def measure_compaction(server: ServerProcess, scale: Scale) -> Figures:
    megabytes = scale.megabytes_compacted
    segment_bytes = megabytes * 1_000_000 // SEGMENTS
    count = min(megabytes, 256) * 1_000_000 // VALUE_BYTES // PRODUCE_CHUNK * PRODUCE_CHUNK
    meter = CpuMeter()
    with topic_of(server, config={"segment.bytes": str(segment_bytes)}) as topic:
        preload(server, topic, keyed_batches(megabytes // REPETITIONS), REPETITIONS)
        undisturbed = [_produce_chunk(server, count) for _ in range(UNDISTURBED_CHUNKS)]
        compacted = Compacted(server, topic)
        with meter.running(server):
            compacted.begin()
            started = time.perf_counter()
            disturbed = []
            while not compacted.is_done():
                if time.perf_counter() - started > PATIENCE_S:
                    raise BenchError(f"{server.name} did not compact {megabytes} MB in {PATIENCE_S} s")
                if time.perf_counter() - started < MAX_LOAD_SECONDS:
                    disturbed.append(_produce_chunk(server, count))
                else:
                    time.sleep(0.05)
            seconds = time.perf_counter() - started
    # The first chunk began before the cleaner woke up, the last ended after it was done.
    rate, rate_without = mean_rate(disturbed[1:-1] or disturbed), mean_rate(undisturbed)
    return {
        "compaction-share": 100 * rate / rate_without,
        "compaction-seconds": seconds,
        "compaction-produce": rate * count * VALUE_BYTES / 1_000_000,
        "compaction.cpu": meter.seconds,
    }


def mean_rate(seconds: list[float]) -> float:
    """Chunks a second."""
    return len(seconds) / sum(seconds)


def _produce_chunk(server: ServerProcess, count: int) -> float:
    with topic_of(server, config=LOAD_TOPIC) as topic:
        return produce(server, topic, VALUE_BYTES, count)
