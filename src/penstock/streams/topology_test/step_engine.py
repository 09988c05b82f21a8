"""Streaming queries of which each `pipe` is a micro-batch. A topic is a directory of Parquet files; the topics of a
pattern have a directory together, to which those come that are made later.

The queries are taken in the plan's order until none has found anything new: what one writes, the next ones read."""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipelines.pipeline import Settings
from penstock.pipelines.runtime.spark.session import batches_with_rows
from penstock.streams.lowering.context import Context
from penstock.streams.lowering.queries import dead_letter_rows, root_rows
from penstock.streams.planner.plan import Plan, PlannedQuery
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import FormatKind
from penstock.streams.topology.topic_choice import TopicChoice, reads
from penstock.streams.topology_test.engine import KeyKinds, outputs_of
from penstock.streams.topology_test.frames import arrow_table, collected, columns_ddl, united
from penstock.streams.topology_test.records import RawRecord
from penstock.streams.topology_test.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

# Chosen: a chain of queries settles in as many rounds as it is long. Those that never settle feed each other.
_MOST_ROUNDS = 50


class FileTopic:
    """Records in the files of a directory, which a streaming query reads. `others` get the same files."""

    def __init__(self, directory: Path, name: str, others: Sequence[Path] = ()) -> None:
        self._name = name
        self._others = others
        self.directory = directory
        directory.mkdir(parents=True)
        self._files = itertools.count()
        self.records: list[RawRecord] = []

    def append(self, records: Sequence[RawRecord]) -> None:
        import pyarrow.parquet as pq

        if not records:
            return
        unseen = self.directory / f".{next(self._files):06}"  # Spark leaves out names that begin with a dot
        pq.write_table(arrow_table(self._name, records, len(self.records)), unseen)
        self.records.extend(records)
        file = unseen.rename(self.directory / f"{unseen.name[1:]}.parquet")
        for other in self._others:
            (other / f"{self.directory.name}-{file.name}").hardlink_to(file)


class StepEngine:
    def __init__(self, spark: SparkSession, plan: Plan, settings: Settings) -> None:
        self._spark = spark
        self._plan = plan
        self._context = Context(spark, plan, settings, is_streaming=True, global_records=self._read_whole)
        self._topics = Topics(plan)
        self._home = Path(tempfile.mkdtemp(prefix="penstock-topology-test-"))
        self._kept: dict[str, FileTopic] = {}
        self._of_patterns: dict[re.Pattern[str], Path] = {}
        for choice in self._topics.sources:
            if isinstance(choice, re.Pattern):
                self._of_patterns[choice] = self._home / "patterns" / f"{len(self._of_patterns)}"
                self._of_patterns[choice].mkdir(parents=True)
        self._queries: list[StreamingQuery] = []
        self._key_kinds = KeyKinds()
        self._whole: list[DataFrame] = []

    def pipe(self, topic: str, records: Sequence[RawRecord]) -> None:
        if not self._queries:
            self._start()
        self._topic(topic).append(records)
        self._look_again()
        for _ in range(_MOST_ROUNDS):
            before = self._count()
            for query in self._queries:
                query.processAllAvailable()
            if self._count() == before:
                return
        raise StreamsError("the queries of the application feed each other without an end")

    def read(self, topic: str) -> Sequence[RawRecord]:
        return self._topic(topic).records

    def key_kind(self, topic: str) -> FormatKind:
        return self._key_kinds[topic]

    def close(self) -> None:
        for query in self._queries:
            query.stop()
        self._queries.clear()
        shutil.rmtree(self._home, ignore_errors=True)

    def _count(self) -> int:
        return sum(len(topic.records) for topic in self._kept.values())

    def _topic(self, name: str) -> FileTopic:
        if name not in self._kept:
            others = [directory for choice, directory in self._of_patterns.items() if reads(choice, name)]
            self._kept[name] = FileTopic(self._home / "topics" / f"{len(self._kept)}", name, others)
        return self._kept[name]

    def _directory(self, choice: TopicChoice) -> Path:
        return self._topic(choice).directory if isinstance(choice, str) else self._of_patterns[choice]

    def _start(self) -> None:
        for query in self._plan.queries:
            self._queries.append(self._start_query(query))
        if self._plan.topology.dead_letters:
            self._queries.append(self._start_dead_letters(self._plan.topology.dead_letters))

    def _start_query(self, query: PlannedQuery) -> StreamingQuery:
        context = self._context.of(query)
        topics = [output.topic for output in query.outputs]

        def write(rows: DataFrame, batch_id: int) -> None:
            for own, records in zip(topics, outputs_of(context, query, rows), strict=True):
                for topic in dict.fromkeys(record.topic or own for record in records):
                    self._topic(topic).append([record for record in records if (record.topic or own) == topic])

        rows = root_rows(context, query, self._read)
        self._key_kinds.find(context, query, rows)
        writer = rows.writeStream.outputMode(query.mode)
        writer = writer.option("checkpointLocation", self._checkpoint(query.name)).foreachBatch(write)
        # Else a query that goes by the clock would never come to rest: its timers ring with the next rows.
        with batches_with_rows(self._spark) if query.goes_by_clock else nullcontext():
            return writer.start()

    def _start_dead_letters(self, name: str) -> StreamingQuery:
        topic = self._topic(name)

        def write(rows: DataFrame, batch_id: int) -> None:
            topic.append(collected(united([rows]), 1)[0])

        writer = dead_letter_rows(self._context, self._read).writeStream
        return writer.option("checkpointLocation", self._checkpoint("dead-letters")).foreachBatch(write).start()

    def _checkpoint(self, query: str) -> str:
        return str(self._home / "checkpoints" / query)

    def _read(self, node: str) -> DataFrame:
        source = self._topics.reading(node)
        reader = self._spark.readStream.schema(columns_ddl(source.with_headers))
        return reader.parquet(str(self._directory(source.topic)))

    def _read_whole(self, node: str) -> DataFrame:
        """Of a global table. Within a streaming query the frame stays, so it has to look for new files again."""
        source = self._topics.reading(node)
        rows = self._spark.read.schema(columns_ddl(source.with_headers)).parquet(str(self._directory(source.topic)))
        self._whole.append(rows)
        return rows

    def _look_again(self) -> None:
        for rows in self._whole:
            for leaf in _java_list(rows._jdf.queryExecution().analyzed().collectLeaves()):
                leaf.relation().location().refresh()


def _java_list(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
