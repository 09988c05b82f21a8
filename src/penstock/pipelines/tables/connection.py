"""How tables are read from one cluster: where it is, how to log in, where its schemas are, and what to do about rows
that do not decode. Travels to executors; secrets are not in its `repr`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.pipelines.kafka.client_settings import to_librdkafka
from penstock.pipelines.source.read_options import FetchOptions

BadRows = Literal["fail", "skip", "null"]
BAD_ROWS: tuple[BadRows, ...] = ("fail", "skip", "null")
# Enough to see what a topic holds, and little enough to be there in a moment.
SAMPLE_RECORDS = 200
SAMPLE_BYTES = 1 << 20
# Producers of one topic seldom differ more in their clocks and delays.
LATENESS_MS = 10 * 60_000


@dataclass(frozen=True, slots=True)
class Connection:
    bootstrap_servers: str
    # With the Java client's names or librdkafka's, without `kafka.` in front.
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Confluent's names: schema.registry.url, basic.auth.user.info, ... None: there is no registry.
    registry: Mapping[str, str] | None = field(default=None, repr=False)
    bad_rows: BadRows = "fail"
    # How late a record may come with a timestamp of the past, where the topic does not say.
    lateness_ms: int = LATENESS_MS
    is_read_committed: bool = True
    # topic -> the subject of its values; others have `<topic>-value`.
    subjects: Mapping[str, str] = field(default_factory=dict)
    sample_records: int = SAMPLE_RECORDS
    sample_bytes: int = SAMPLE_BYTES

    def settings(self) -> dict[str, str]:
        """librdkafka's settings. Raises OptionError."""
        return to_librdkafka({**self.kafka, "bootstrap.servers": self.bootstrap_servers})

    def fetch_options(self) -> FetchOptions:
        """Raises OptionError."""
        raise NotImplementedError
