"""How tables are read from one cluster: where it is, how to log in, where its schemas are, and what to do about rows
that do not decode. Travels to executors; secrets are not in its `repr`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.pipelines.options import OptionScope, refuse_value
from penstock.pipelines.payloads.formats import RegistryAddress
from penstock.pipelines.source.read_options import FetchOptions, parse_source_options

BadRows = Literal["fail", "skip", "null"]
BAD_ROWS: tuple[BadRows, ...] = ("fail", "skip", "null")
# Enough to see what a topic holds, and little enough to be there in a moment.
SAMPLE_RECORDS = 200
SAMPLE_BYTES = 1 << 20
# Producers of one topic seldom differ more in their clocks and delays.
LATENESS_MS = 10 * 60_000
# A user waits for the answer: a leader that moves is there again after seconds.
_PATIENCE_MS = 30_000


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    bootstrap_servers: str
    # With the Java client's names or librdkafka's, without `kafka.` in front.
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry: RegistryAddress | None = None  # None: there is no registry
    bad_rows: BadRows = "fail"
    # How late a record may come with a timestamp of the past, where the topic does not say.
    lateness_ms: int = LATENESS_MS
    is_read_committed: bool = True
    # topic -> the subject of its values; others have `<topic>-value`.
    subjects: Mapping[str, str] = field(default_factory=dict)
    sample_records: int = SAMPLE_RECORDS
    sample_bytes: int = SAMPLE_BYTES

    def __post_init__(self) -> None:
        if self.bad_rows not in BAD_ROWS:
            raise refuse_value("bad_rows", self.bad_rows, "one of " + ", ".join(BAD_ROWS))

    def fetch_options(self) -> FetchOptions:
        """How tasks read, as the source's own options have it. Raises OptionError."""
        kafka = {f"kafka.{name}": value for name, value in self.kafka.items() if name != "isolation.level"}
        given = {"kafka.bootstrap.servers": self.bootstrap_servers, "subscribe": "any", **kafka}
        fetch = parse_source_options(given, OptionScope.BATCH_READ).fetch
        return replace(fetch, is_read_committed=self.is_read_committed, poll_timeout_ms=_PATIENCE_MS)
