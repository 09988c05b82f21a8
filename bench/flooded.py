"""End-to-end latency at a steady rate while another client floods a second topic, whose segments retention deletes.

On brokers of its own: how often they look for what is due cannot be changed while they run, and once a second would
disturb the rows with thousands of partitions.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.contenders import Contender, data_directory
from bench.errors import BenchError
from bench.flood import VALUE_BYTES, Flood
from bench.loads import Figures, Scale, percentile, topic_of
from bench.steady import latencies_end_to_end
from penstock.testing.processes import ServerProcess

# The same for both: retention looks every second, and files go a second later (`SETTINGS`). Kafka otherwise looks for
# the first time half a minute after its start; ours knows no such key and passes over it.
EAGER = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
# The brokers are new, and a Java broker's compiler wants some load first.
WARM_UP_SECONDS = 10
# What the log of the flooded topic may hold: the segment that is written, one that retention keeps, one that waits to
# be deleted, and room for a broker that is late.
SEGMENTS_AT_MOST = 6


def measure_flooded(contender: Contender, directory: Path, scale: Scale) -> Figures:
    segment_bytes = scale.megabytes_of_segment * 1_000_000
    directory.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(directory).free < SEGMENTS_AT_MOST * segment_bytes:
        raise BenchError(f"the disk has no room for {SEGMENTS_AT_MOST} segments of {scale.megabytes_of_segment} MB")
    config = {"segment.bytes": str(segment_bytes), "retention.bytes": str(segment_bytes)}
    try:
        with (
            contender.make(directory, EAGER) as server,
            topic_of(server) as topic,
            topic_of(server, config=config) as other,
            Flood(server, other) as flood,
        ):
            latencies = latencies_end_to_end(server, topic, scale.flooded_seconds, WARM_UP_SECONDS)
            deleted = _deleted_megabytes(server, other)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return {
        "flooded-p50": percentile(latencies, 50) / 1000,
        "flooded-p99": percentile(latencies, 99) / 1000,
        "flooded-longest": latencies[-1] / 1e6,
        "flooded-rate": flood.megabytes_per_second,
        "flooded-deleted": deleted,
    }


def _deleted_megabytes(server: ServerProcess, topic: str) -> float:
    """What was before the first segment that is left; a file that only waits to be deleted has another name."""
    oldest = min(int(path.stem) for path in (data_directory(server) / f"{topic}-0").glob("*.log"))
    return oldest * VALUE_BYTES / 1e6
