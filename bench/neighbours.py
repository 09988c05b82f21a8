"""Small produces while another client asks for everything: what the large requests of one client cost the others."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

from bench.contenders import CpuMeter
from bench.errors import BenchError
from bench.loads import LATENCY_VALUE_BYTES, PATIENCE_S, Figures, Scale, now_ms, percentile, topic_of
from bench.wire import METADATA, METADATA_VERSION, RawConnection, frame, produce_error, produce_request, record_batch
from penstock.protocol.codec import encode
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.testing.processes import ServerProcess

TOPICS = 10
LIST_OFFSETS_VERSION, DESCRIBE_LOG_DIRS_VERSION = 7, 2
LATEST = -1


def measure_neighbours(server: ServerProcess, scale: Scale) -> Figures:
    """One connection produces one record at a time; another has metadata, offsets and sizes of all partitions sent, one
    request after another, without a pause.
    """
    meter = CpuMeter()
    partitions = scale.partitions_asked_for // TOPICS
    with ExitStack() as stack:
        names = [stack.enter_context(topic_of(server, partitions)) for _ in range(TOPICS)]
        topic = stack.enter_context(topic_of(server))
        alone = produce_singly(server, topic, scale.single_records)
        asking = Asking(server, questions(names, partitions))
        asking.start()
        try:
            with meter.running(server):
                together = produce_singly(server, topic, scale.single_records)
        finally:
            asking.stop()
    return {
        "neighbour-alone-p99": percentile(alone, 99) / 1000,
        "neighbour-p50": percentile(together, 50) / 1000,
        "neighbour-p99": percentile(together, 99) / 1000,
        "neighbour-worst": together[-1] / 1000,
        "neighbour-questions": asking.answered / asking.seconds,
        "neighbour.cpu": meter.seconds,
    }


def questions(names: list[str], partitions: int) -> list[bytes]:
    """Everything there is to know of all topics."""
    asked = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
    offsets = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked) for name in names]
    )
    sizes = DescribeLogDirsRequest(topics=None)
    return [
        frame(METADATA, METADATA_VERSION, b"\x00\x00\x00\x00"),  # null topics, nothing created, no operations, no tags
        frame(offsets.API_KEY, LIST_OFFSETS_VERSION, encode(offsets, LIST_OFFSETS_VERSION)),
        frame(sizes.API_KEY, DESCRIBE_LOG_DIRS_VERSION, encode(sizes, DESCRIBE_LOG_DIRS_VERSION)),
    ]


def produce_singly(server: ServerProcess, topic: str, count: int) -> list[int]:
    """How long each produce took, in nanoseconds, the shortest first."""
    request = produce_request(topic, 0, record_batch(bytes(LATENCY_VALUE_BYTES), now_ms()))
    latencies = []
    with RawConnection(server.host, server.port) as connection:
        for _ in range(count):
            started = time.perf_counter_ns()
            response = connection.exchange(request)
            latencies.append(time.perf_counter_ns() - started)
    if produce_error(response, topic):
        raise BenchError(f"produce failed with error {produce_error(response, topic)}")
    return sorted(latencies)


class Asking:
    """The client that asks for everything. Its answers are received and not looked at."""

    def __init__(self, server: ServerProcess, requests: list[bytes]) -> None:
        self._server = server
        self._requests = requests
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answered = 0
        self.seconds = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        started = time.perf_counter()
        with RawConnection(self._server.host, self._server.port) as connection:
            while not self._stopping.is_set():
                for request in self._requests:
                    connection.exchange(request)
                    self.answered += 1
        self.seconds = time.perf_counter() - started
