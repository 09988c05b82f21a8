"""Counting, as cheaply as Python can: an increment of an integer attribute.

A component is handed one of the small objects below and increments its attributes; nothing here knows the name under
which a number is published. `core.metrics.table` gives names, labels and words; `server.monitoring.exposition` renders
them at a scrape, and at no other time (ADR 6). Values that exist anyway (sizes, counts of things) are not counted a
second time: the composition root registers a callable that reads them at scrape time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from operator import add, attrgetter

from penstock.core.metrics.cluster_counters import ControllerMetrics, ReplicaMetrics, StoreMetrics
from penstock.core.metrics.samples import BYTES, MILLISECONDS, CounterSet, Histogram, Labels, Number, Sample
from penstock.core.metrics.schema_counters import SchemaCheckMetrics
from penstock.core.steps import finish

# What a gauge's callable returns: one number, or one number for each tuple of label values.
Reading = Number | Iterable[tuple[Labels, Number]]
# One pass over many things for several gauges, by their names. At each `yield` other work may have a turn.
Survey = Generator[None, None, Mapping[str, Reading]]

# Ten times the topics a single node is meant for; above it a scrape would be tens of megabytes. Topics past the limit
# share one object, so the totals stay right.
MAX_TOPICS = 10_000


class TopicMetrics:
    """What is counted for each topic. Handlers and logs hold the object and increment it."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "invalid_crc_records",
        "invalid_magic_records",
        "invalid_sequence_records",
        "messages_in",
        "no_key_compacted_records",
        "produce_requests",
    )

    def __init__(self) -> None:
        for attribute in self.__slots__:
            setattr(self, attribute, 0)

    bytes_in: int
    bytes_out: int
    bytes_rejected: int
    failed_fetch_requests: int
    failed_produce_requests: int
    fetch_requests: int
    invalid_crc_records: int
    invalid_magic_records: int
    invalid_sequence_records: int
    messages_in: int
    no_key_compacted_records: int
    produce_requests: int

    def add(self, other: TopicMetrics) -> None:
        for attribute in self.__slots__:
            setattr(self, attribute, getattr(self, attribute) + getattr(other, attribute))


_ALL_COUNTS: Callable[[TopicMetrics], tuple[int, ...]] = attrgetter(*TopicMetrics.__slots__)


class TopicCounters(CounterSet):
    """Per-topic counters and their sum.

    The sum is made at scrape time, so the hot path increments once. What a deleted topic had counted moves to
    `retired`: the sum never goes backwards, which Prometheus would take for a restart.
    """

    __slots__ = ("_limit", "_topics", "overflow", "retired")

    def __init__(self, limit: int = MAX_TOPICS) -> None:
        self._limit = limit
        self._topics: dict[str, TopicMetrics] = {}
        self.retired = TopicMetrics()
        self.overflow = TopicMetrics()

    def get(self, topic: str) -> TopicMetrics:
        """The counters of a topic that exists. A request for an unknown topic must count on `overflow` instead."""
        counters = self._topics.get(topic)
        if counters is None:
            if len(self._topics) >= self._limit:
                return self.overflow
            counters = self._topics[topic] = TopicMetrics()
        return counters

    def remove(self, topic: str) -> None:
        counters = self._topics.pop(topic, None)
        if counters is not None:
            self.retired.add(counters)

    def __len__(self) -> int:
        return len(self._topics)

    def samples(self, attribute: str) -> Iterator[Sample]:
        return iter(finish(self.read())[attribute])

    def read(self) -> Generator[None, None, dict[str, list[Sample]]]:
        """All attributes, one step for each topic. First comes the sum under an empty topic label, which is where
        Kafka's exporter puts it, then each topic.

        The topics and what is retired are taken in the first step. A topic that is deleted later is still read, and its
        counts are not in `retired` yet: no sum is too large, so none falls in the next scrape.
        """
        topics = list(self._topics.items())
        sums = list(map(add, _ALL_COUNTS(self.retired), _ALL_COUNTS(self.overflow)))
        columns: list[list[Sample]] = [[(("",), 0)] for _ in sums]
        for topic, counters in topics:
            labels, counts = (topic,), _ALL_COUNTS(counters)
            sums = list(map(add, sums, counts))
            for column, count in zip(columns, counts, strict=True):
                column.append((labels, count))
            yield
        for column, total in zip(columns, sums, strict=True):
            column[0] = ("",), total
        return dict(zip(TopicMetrics.__slots__, columns, strict=True))


class ApiMetrics:
    """One API's requests by version, answers by error code, time and size."""

    __slots__ = ("errors", "request_bytes", "requests", "total_time_ms")

    def __init__(self, max_version: int) -> None:
        self.requests = [0] * (max_version + 1)
        self.errors: dict[int, int] = {}
        self.total_time_ms = Histogram(MILLISECONDS)
        self.request_bytes = Histogram(BYTES)

    def count_request(self, version: int, size: int) -> None:
        self.requests[version] += 1
        histogram = self.request_bytes  # as in `observe`, without the call
        histogram.counts[bisect_left(histogram.bounds, size)] += 1
        histogram.total += size

    def count_served(self, version: int, size: int, milliseconds: float) -> None:
        """`count_request` and `count_answer` of a request that was answered at once and without an error."""
        self.requests[version] += 1
        self.errors[0] = self.errors.get(0, 0) + 1
        histogram = self.request_bytes
        histogram.counts[bisect_left(BYTES, size)] += 1
        histogram.total += size
        histogram = self.total_time_ms
        histogram.counts[bisect_left(MILLISECONDS, milliseconds)] += 1
        histogram.total += milliseconds

    def count_answer(self, code: int, milliseconds: float) -> None:
        errors = self.errors
        errors[code] = errors.get(code, 0) + 1
        histogram = self.total_time_ms  # as in `observe`, without the call
        histogram.counts[bisect_left(histogram.bounds, milliseconds)] += 1
        histogram.total += milliseconds


class RequestMetrics(CounterSet):
    """One `ApiMetrics` for each row of the API table, which bounds the labels: clients cannot invent any."""

    __slots__ = ("_apis", "_error_name")

    def __init__(self, error_name: Callable[[int], str] = str) -> None:
        self._apis: dict[str, ApiMetrics] = {}
        self._error_name = error_name

    def register(self, request: str, max_version: int) -> ApiMetrics:
        if request in self._apis:
            raise ValueError(f"the requests of {request} are counted already")
        api = self._apis[request] = ApiMetrics(max_version)
        return api

    def samples(self, attribute: str) -> Iterator[Sample]:
        for request, api in self._apis.items():
            if attribute == "requests":
                for version, count in enumerate(api.requests):
                    if count:
                        yield (request, str(version)), count
            elif attribute == "errors":
                for code, count in api.errors.items():
                    yield (request, self._error_name(code)), count
            else:
                histogram: Histogram = getattr(api, attribute)
                if any(histogram.counts):  # an API without requests costs a scrape nothing
                    yield (request,), histogram.copy()


class SocketMetrics(CounterSet):
    """Connections of one broker. The number open now is a gauge: created minus closed."""

    __slots__ = (
        "backlog_evictions",
        "backlog_pauses",
        "bytes_in",
        "bytes_out",
        "certificate_refusals",
        "certificate_reloads",
        "closed",
        "created",
        "delayed",
        "expired",
        "handshake_failures",
        "handshakes",
        "malformed",
        "refused",
        "requests",
        "revoked",
        "throttled",
    )

    def __init__(self) -> None:
        self.created = 0
        self.closed = 0
        self.expired = 0
        self.refused = 0
        self.delayed = 0
        self.throttled = 0
        self.backlog_pauses = 0
        self.backlog_evictions = 0
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.malformed: dict[str, int] = {}
        self.handshakes = 0
        self.certificate_reloads = 0
        self.certificate_refusals = 0
        self.revoked = 0
        self.handshake_failures: dict[str, int] = {}

    def count_handshake_failure(self, reason: str) -> None:
        """`reason` is one of the broker's own few words."""
        self.handshake_failures[reason] = self.handshake_failures.get(reason, 0) + 1

    def count_malformed(self, reason: str) -> None:
        """`reason` is one of the broker's own few words, never text from the client."""
        self.malformed[reason] = self.malformed.get(reason, 0) + 1


class QuotaMetrics(CounterSet):
    """Requests that were throttled, by the key of the quota."""

    __slots__ = ("throttled",)

    def __init__(self) -> None:
        self.throttled: dict[str, int] = {}


class LoginMetrics(CounterSet):
    """Logins on listeners with SASL. A login on a connection that is open already is counted apart (KIP-368)."""

    __slots__ = ("again", "expired", "failed", "failed_again", "succeeded", "timed_out")

    def __init__(self) -> None:
        self.succeeded = 0
        self.timed_out = 0
        self.failed = 0
        self.again = 0
        self.failed_again = 0
        self.expired = 0


class LogMetrics(CounterSet):
    __slots__ = ("flush_time_ms", "segments_deleted")

    def __init__(self) -> None:
        self.flush_time_ms = Histogram(MILLISECONDS)
        self.segments_deleted = 0


# A slice of the loop above the first is felt by a client that counts milliseconds, above the second by a person, and
# above the third by a client's time-outs.
SLICE_THRESHOLDS_MS = (10, 100, 1_000)


class LoopMetrics(CounterSet):
    """Slices of the event loop that kept every client waiting. A slice of 150 ms is above 10 and above 100."""

    __slots__ = ("slices",)

    def __init__(self) -> None:
        self.slices = {str(threshold_ms): 0 for threshold_ms in SLICE_THRESHOLDS_MS}

    def count_slice(self, held_ms: float) -> None:
        for threshold_ms in SLICE_THRESHOLDS_MS:
            if held_ms < threshold_ms:
                break
            self.slices[str(threshold_ms)] += 1


class CleanerMetrics(CounterSet):
    """Counters of compaction. Values named `max_` are of the last round, as Kafka's are of its last run."""

    __slots__ = (
        "bytes_read",
        "bytes_written",
        "cleanings",
        "cleanings_failed",
        "last_run_ms",
        "max_buffer_utilization_percent",
        "max_clean_time_seconds",
        "max_compaction_delay_seconds",
        "max_dirty_percent",
        "recopy_percent",
        "records_removed",
        "slice_time_ms",
    )

    def __init__(self) -> None:
        self.cleanings = 0
        self.cleanings_failed = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_removed = 0
        self.slice_time_ms = Histogram(MILLISECONDS)
        self.recopy_percent = 0
        self.last_run_ms = 0
        self.max_dirty_percent = 0
        self.max_buffer_utilization_percent = 0
        self.max_clean_time_seconds = 0
        self.max_compaction_delay_seconds = 0

    def count_cleaning(self, bytes_read: int, bytes_written: int, records_removed: int) -> None:
        self.cleanings += 1
        self.bytes_read += bytes_read
        self.bytes_written += bytes_written
        self.records_removed += records_removed
        self.recopy_percent = int(100 * bytes_written / max(bytes_read, 1))

    def count_slice(self, seconds: float) -> None:
        self.slice_time_ms.observe(seconds * 1000)


class PurgatoryMetrics(CounterSet):
    """Requests that waited for data, acknowledgements or members until their time was up."""

    __slots__ = ("expired", "session_evictions")

    def __init__(self) -> None:
        self.expired: dict[str, int] = {}
        self.session_evictions = 0

    def count_expired(self, operation: str) -> None:
        self.expired[operation] = self.expired.get(operation, 0) + 1


class GroupMetrics(CounterSet):
    __slots__ = (
        "completed_rebalances",
        "consumer_rebalances",
        "offset_commits",
        "offset_deletions",
        "offset_expirations",
        "pending_joins_dropped",
        "sessions_expired",
    )

    def __init__(self) -> None:
        self.completed_rebalances = 0
        self.consumer_rebalances = 0
        self.offset_commits = 0
        self.offset_deletions = 0
        self.offset_expirations = 0
        self.pending_joins_dropped = 0
        self.sessions_expired = 0


class AuditMetrics(CounterSet):
    """Events of the audit trail, by kind before repeats are merged; events that a sink could not take."""

    __slots__ = ("dropped", "events", "failures")

    def __init__(self) -> None:
        self.events: dict[str, int] = {}
        self.dropped: dict[str, int] = {}
        self.failures = 0

    def count(self, kind: str) -> None:
        self.events[kind] = self.events.get(kind, 0) + 1

    def count_dropped(self, sink: str, count: int = 1) -> None:
        self.dropped[sink] = self.dropped.get(sink, 0) + count


class HttpMetrics(CounterSet):
    """Requests of HTTP listeners by status, and requests refused before they reached an endpoint."""

    __slots__ = ("answers", "connections", "refused")

    def __init__(self) -> None:
        self.answers: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.connections = 0  # open now

    def count_answer(self, status: int) -> None:
        self.answers[str(status)] = self.answers.get(str(status), 0) + 1

    def count_refused(self, reason: str) -> None:
        """`reason` is one of a few words of ours."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


class BrokerMetrics:
    """Every counter of one broker, by the component that owns it, and the gauges that are read on demand."""

    __slots__ = (
        "_gauges",
        "_surveys",
        "audit",
        "cleaner",
        "controller",
        "gauge_names",
        "groups",
        "http",
        "logins",
        "logs",
        "loop",
        "purgatory",
        "quotas",
        "replicas",
        "requests",
        "schemas",
        "sockets",
        "store",
        "topics",
    )

    def __init__(self, error_name: Callable[[int], str] = str) -> None:
        self.topics = TopicCounters()
        self.requests = RequestMetrics(error_name)
        self.sockets = SocketMetrics()
        self.logins = LoginMetrics()
        self.logs = LogMetrics()
        self.loop = LoopMetrics()
        self.cleaner = CleanerMetrics()
        self.replicas = ReplicaMetrics()
        self.controller = ControllerMetrics()
        self.store = StoreMetrics()
        self.purgatory = PurgatoryMetrics()
        self.quotas = QuotaMetrics()
        self.groups = GroupMetrics()
        self.schemas = SchemaCheckMetrics()
        self.audit = AuditMetrics()
        self.http = HttpMetrics()
        self.gauge_names: set[str] = set()
        self._gauges: dict[str, Callable[[], Reading]] = {}
        self._surveys: list[tuple[Callable[[], Survey], frozenset[str]]] = []

    def register_gauge(self, name: str, read: Callable[[], Reading]) -> None:
        """`read` runs on the broker's own thread at each scrape and must not block. A gauge that looks at every
        partition, group or transaction belongs into a survey.
        """
        self._claim(name)
        self._gauges[name] = read

    def register_survey(self, names: Iterable[str], survey: Callable[[], Survey]) -> None:
        """`survey` runs on the broker's own thread at each scrape, in slices, and returns the gauges `names`."""
        answered = frozenset(names)
        for name in answered:
            self._claim(name)
        self._surveys.append((survey, answered))

    def _claim(self, name: str) -> None:
        if name in self.gauge_names:
            raise ValueError(f"the gauge {name} has a source already")
        self.gauge_names.add(name)

    def read_gauges(self) -> Generator[None, None, dict[str, list[Sample]]]:
        """The values of gauges that have a source. A gauge without one is left out, because a zero would be wrong."""
        samples: dict[str, list[Sample]] = {}
        for survey, names in self._surveys:
            readings = yield from survey()
            assert readings.keys() == names, f"a survey answered {sorted(readings)}, not {sorted(names)}"
            for name, reading in readings.items():
                samples[name] = _samples_of(reading)
                yield
        for name, read in self._gauges.items():
            samples[name] = _samples_of(read())
            yield
        return samples


def _samples_of(reading: Reading) -> list[Sample]:
    if isinstance(reading, int | float):
        return [((), reading)]
    return reading if isinstance(reading, list) else list(reading)
