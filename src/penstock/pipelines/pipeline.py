"""The parts of a pipeline: sources, pure steps, sinks and settings. Nothing here touches Spark or a broker; `runner`
does.

pipeline = Pipeline(
    name="errors",
    sources=(Topic("access-log"),),
    steps=(parse_access_log(), only_errors),
    sinks=(
        TopicSink("errors"),
        Branch("per-minute", steps=(count_per_minute,), sinks=(TopicSink("counts"),), stateful=True),
    ),
    dead_letters=TopicSink("access-log.dead"),
)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from penstock.runs.topics import COMMANDS_TOPIC, RUNS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A pure function: the same rows in, the same rows out. Reading, writing and counting live at the edges.
Step: TypeAlias = "Callable[[DataFrame], DataFrame]"
OutputMode: TypeAlias = Literal["append", "update", "complete"]
# Chosen, not measured: several seconds of lines at 2,000 a second, and no burden to a driver's memory even where a
# branch makes twenty rows of one.
SMALL_BYTES = 8 * 1024 * 1024
# As a trigger: Spark's real-time mode, which only queries that were planned for it have. An interval may follow.
REAL_TIME = "realtime"


def always_wanted() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch of one query. A batch that failed comes again with the same id and the same rows."""

    query_id: str  # survives restarts, changes when the checkpoint is reset
    query_name: str
    id: int
    # Bytes of the batch in Spark's memory, before the steps of a branch; None where the query keeps no batches.
    size: int | None = None
    # False once the query was stopped. Spark cancels its jobs then, but cannot end what a sink does on the driver: a
    # sink that waits there looks at this and raises. The batch comes again at the next start.
    is_wanted: Callable[[], bool] = field(default=always_wanted, compare=False, repr=False)

    @property
    def is_small(self) -> bool:
        """Whether more than one task, or more than one process, would cost the sinks more than it saves."""
        return self.size is not None and self.size <= SMALL_BYTES

    def __reduce__(self) -> tuple[type[Batch], tuple[str, str, int, int | None]]:
        """For sinks that hand the batch to their tasks: Spark ends those, and there is no query to ask."""
        return Batch, (self.query_id, self.query_name, self.id, self.size)


@runtime_checkable
class OpenSink(Protocol):
    """A sink at work in one run of one pipeline. It lives on the driver and holds what a run has to remember:
    connections, and what is known of the destination. One thread at a time calls it, though not always the same, and
    other sinks of the batch may be at work meanwhile: where the batch is small, the session's settings must stay."""

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Returns when the rows are as safe as the sink promises. A batch that is written a second time, in this run or
        in a later one, must leave what writing it once leaves."""

    def close(self) -> None:
        """Called once, when all queries of the run have ended."""


@runtime_checkable
class Settling(Protocol):
    """An open sink whose rows are safe a moment before they are seen."""

    def settle(self, pause: Callable[[float], bool]) -> None:
        """Returns when readers are shown what was written, or when that takes too long. Called before a query that
        reads what one before it wrote, when that one has ended. `pause` waits for some seconds; true: give up."""


@runtime_checkable
class Sink(Protocol):
    """Describes where rows go, in plain values. What writing needs is held by what `open` returns."""

    @property
    def name(self) -> str:
        """Unique within a pipeline; part of what makes a batch's second writing recognisable."""

    @property
    def session_settings(self) -> Mapping[str, str]:
        """The settings that the Spark session must be started with, since it cannot get them later; mostly none."""

    def describe(self, settings: Settings) -> str:
        """One line for people: kind, destination, and what is promised under these settings."""

    def open(self, spark: SparkSession, settings: Settings) -> OpenSink:
        """Called once in a run, on the driver, before the first batch. Creates what is missing at the destination;
        raises PipelineError for what cannot work."""


@runtime_checkable
class Source(Protocol):
    @property
    def name(self) -> str: ...

    def describe(self) -> str: ...

    def read(self, spark: SparkSession, settings: Settings) -> DataFrame:
        """A streaming frame."""


@runtime_checkable
class OpenStep(Protocol):
    """A step at work in one run. It is still pure: it has its facts since it was opened."""

    def __call__(self, rows: DataFrame) -> DataFrame: ...

    def is_outdated(self) -> bool:
        """Whether the step, opened anew, would work differently and should be. The run calls this several times a
        second, between batches or during one, so it must not wait."""

    def close(self) -> None:
        """Called once, when all queries of the run have ended, or before the run starts anew."""


@runtime_checkable
class StepToOpen(Protocol):
    """A step that depends on the pipeline's settings, or on a registry's answers before the first batch. Called without
    a run, as in `combine` or in a notebook, it knows nothing of settings."""

    def __call__(self, rows: DataFrame) -> DataFrame: ...

    def open(self, pipeline: Pipeline) -> OpenStep:
        """Called once in a run, on the driver, before the first batch. Raises PipelineError for what cannot work."""


@runtime_checkable
class Checked(Protocol):
    """A step that can check before Spark starts whether it will work."""

    def __call__(self, rows: DataFrame) -> DataFrame: ...

    def check(self, pipeline: Pipeline) -> None:
        """Called before a run, on the driver. Reads from brokers and registries, and changes nothing. Raises
        PipelineError for what is certain to fail, and for nothing else."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Rows on their way to some of the sinks. A stateful branch (windows, deduplication, joins) is a Spark query of its
    own, and so is one with sources; all others share one query, which reads the pipeline's sources once. Within a
    branch may be others, without state and sources, whose steps come after its own."""

    name: str
    sinks: tuple[Sink | Branch, ...]
    steps: tuple[Step, ...] = ()
    stateful: bool = False
    # Its state goes by the clock, so that Spark runs a batch at every trigger, with rows or without. Where a run ends
    # by itself there are none without rows, or it would never end.
    goes_by_clock: bool = False
    mode: OutputMode = "append"
    # Read instead of the pipeline's sources, whose steps and dead letters do not apply to these.
    sources: tuple[Source, ...] = ()
    # Of its own sources, one or several: the place to parse, since a row that has an `error` behind it fails the batch.
    combine: Callable[..., DataFrame] | None = None
    # Branches, by name, that write what this one reads. Where a run ends by itself, this one begins when they are done.
    after: tuple[str, ...] = ()
    # Planned for Spark's real-time mode: SQL from end to end, and one topic as its sink.
    is_real_time: bool = False


@dataclass(frozen=True, slots=True)
class Watermark:
    """How long a stateful step waits for late events: it may drop rows whose `column` is older than the newest one seen
    minus `delay`."""

    column: str
    delay: str  # as Spark writes intervals: "10 minutes"


@dataclass(frozen=True, slots=True)
class Settings:
    """Each may be set by `penstock pipeline run --set name=value`."""

    bootstrap_servers: str = "127.0.0.1:9092"
    checkpoint: str = ""  # a directory; empty: ./checkpoints/<pipeline name>
    # An interval, or "available-now" to stop when everything there at the start is done; of applications
    # (penstock.streams) also "realtime", with the interval of checkpoints behind it if wanted: "realtime 5 seconds".
    trigger: str = "1 second"
    parallelism: int = 0  # tasks of a shuffle and at least so many tasks per read; 0: one per core
    watermark: Watermark | None = None
    engine: Literal["python", "jvm"] = (
        "python"  # "jvm": Spark's own Kafka connector, whose jar must be on the class path
    )
    max_records_per_batch: int = 0  # 0: no limit
    group_id: str = ""  # progress is committed as this group; empty: penstock-<pipeline name>
    metrics_port: int = -1  # Prometheus; -1: not served, 0: any free port
    publish_runs: bool = True  # others see the run and can pause, resume, restart and stop it
    runs_topic: str = RUNS_TOPIC
    commands_topic: str = COMMANDS_TOPIC
    # These may hold passwords. Further client settings, without the prefix "kafka.":
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)  # without the prefix "schema.registry."
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)  # further settings of the Spark session


# For code without a pipeline at hand.
DEFAULT_SETTINGS = Settings()


def is_real_time(settings: Settings) -> bool:
    return settings.trigger.split(maxsplit=1)[:1] == [REAL_TIME]


# Of most sinks: they work in any session.
NO_SESSION_SETTINGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    sources: tuple[Source, ...]  # may be empty where every sink is in a branch that has its own
    sinks: tuple[Sink | Branch, ...]
    steps: tuple[Step, ...] = ()
    # Rows whose `error` column is set after the steps; without such a sink they fail the batch.
    dead_letters: Sink | None = None
    # Brings several sources together: called with one frame per source, in their order. Without it they are united by
    # column name.
    combine: Callable[..., DataFrame] | None = None
    settings: Settings = DEFAULT_SETTINGS
