"""What a broker counts while it checks the schemas of records."""

from __future__ import annotations

from penstock.core.metrics.samples import CounterSet


class SchemaCheckMetrics(CounterSet):
    """Counted on the loop alone: the checks themselves are done in threads."""

    __slots__ = ("failed_questions", "refused_records", "unchecked_batches")

    def __init__(self) -> None:
        self.refused_records = 0
        self.unchecked_batches = 0
        self.failed_questions = 0
