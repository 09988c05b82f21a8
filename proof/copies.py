"""The same record twice in a log, whatever epoch and sequence its producer gave it the second time.

A broker tells a second copy by its producer's epoch and sequence. A producer that begins a new epoch with a record that
the broker has already appended makes a copy that no broker can tell. So the log itself is searched, by what records are
and not by their numbers. Values of the rounds' clients are unique. Records without a producer id are not judged:
a producer without sequences promises no better.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from penstock.core.types import Buffer
from penstock.protocol.batch import read_header
from penstock.protocol.records import Record, iterate_records
from penstock.testing.history import Anomaly, Where

KIND = "duplicate"


class Copy(NamedTuple):
    """Where a record stands, and what its producer calls it there."""

    offset: int
    producer_id: int
    producer_epoch: int
    sequence: int

    def __str__(self) -> str:
        return (
            f"at offset {self.offset} as sequence {self.sequence} of epoch {self.producer_epoch} "
            f"of producer {self.producer_id}"
        )


def find_copies(batches: Iterable[Buffer], name_of: Callable[[Record], Hashable]) -> dict[Hashable, list[Copy]]:
    """The records that stand in the log more than once, by their names."""
    found: dict[Hashable, list[Copy]] = {}
    for batch in batches:
        header = read_header(batch)
        if header.is_control or not header.has_producer:
            continue
        for record in iterate_records(batch):
            sequence = header.base_sequence + record.offset - header.base_offset
            copy = Copy(record.offset, header.producer_id, header.producer_epoch, sequence)
            found.setdefault(name_of(record), []).append(copy)
    return {name: copies for name, copies in found.items() if len(copies) > 1}


def judge_copies(
    topic_partition: Where, copies: dict[Hashable, list[Copy]], anomalies: Sequence[Anomaly] = ()
) -> list[Anomaly]:
    """The anomalies of the history, and the copies. Of a record that both name, the log's own account stays: it says by
    which numbers the producer called each copy.
    """
    topic, index = topic_partition
    doubled = [
        Anomaly(KIND, f"{topic}-{index}: {name!r} stands " + ", and ".join(str(each) for each in places), value=name)
        for name, places in copies.items()
    ]
    return [*(each for each in anomalies if each.kind != KIND or each.value not in copies), *doubled]
