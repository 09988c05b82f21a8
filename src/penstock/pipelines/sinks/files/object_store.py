"""A lake in S3. Spark's wheel has no S3 file system, so the tasks write with Arrow.

An object appears whole or not at all and cannot be renamed: a staged one is copied by the store itself, then deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.files.arrow_formats import EXTENSIONS, REWRITABLE, open_writer, rewrite_files
from penstock.pipelines.sinks.files.operations import ArrowFiles
from penstock.pipelines.sinks.files.partition_names import directory_of
from penstock.pipelines.sinks.files.spark import FileSizes, gathered
from penstock.pipelines.sql_identifiers import quote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs
    from pyspark.sql import DataFrame

# Named in the URL; whatever is not comes from where Amazon's own tools look: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
# AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, ~/.aws, the machine's role.
URL_OPTIONS = ("endpoint", "region", "access_key", "secret_key", "session_token")
# The partition values as text, as they are to stand in the directory's name.
_VALUE = "_penstock_partition_{}"
_RESULT_SCHEMA = "path string"


@dataclass(frozen=True, slots=True)
class S3Location:
    bucket: str
    prefix: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def root(self) -> str:
        return f"{self.bucket}/{self.prefix}".rstrip("/")

    def open(self) -> fs.FileSystem:
        from pyarrow import fs

        given = dict(self.options)
        named: dict[str, Any] = {
            key: given[key] for key in ("region", "access_key", "secret_key", "session_token") if key in given
        }
        if "endpoint" in given:
            scheme, _, host = given["endpoint"].rpartition("://")
            named |= {"endpoint_override": host, "scheme": scheme or "https"}
        return fs.S3FileSystem(**named)


def parse_location(url: str) -> S3Location:
    parts = urlsplit(url)
    if not parts.netloc:
        raise PipelineError("a lake in S3 is s3://bucket/prefix, and this one names no bucket")
    options = tuple(parse_qsl(parts.query, keep_blank_values=True))
    unknown = [key for key, _ in options if key not in URL_OPTIONS]
    if unknown:
        raise PipelineError(
            f"s3://{parts.netloc}{parts.path}: {', '.join(unknown)} is not known",
            f"The URL may say {', '.join(URL_OPTIONS)}.",
        )
    return S3Location(parts.netloc, unquote(parts.path).strip("/"), options)


@dataclass(frozen=True)
class ObjectStore:
    location: S3Location
    format: str
    sizes: FileSizes

    @cached_property
    def _file_system(self) -> fs.FileSystem:
        return self.location.open()

    @property
    def files(self) -> ArrowFiles:
        return ArrowFiles(self._file_system, self.location.root)

    def stage(
        self, rows: DataFrame, partition_by: Sequence[str], staging: str, small_size: int | None = None
    ) -> Sequence[str]:
        """Returns the objects that tasks report, and not all that are there: a failed attempt may have left objects."""
        from pyspark.sql import functions as F

        task = ArrowTask(self.location, staging, self.format, tuple(partition_by), self.sizes.max_rows_per_file)
        with gathered(rows, partition_by, self.sizes, small_size) as few:
            values = [few[quote(name)].cast("string").alias(alias) for name, alias in task.value_columns]
            kept = [few[quote(name)] for name in few.columns if name not in partition_by]
            if not kept:
                raise PipelineError("a lake needs a column besides those that it is partitioned by")
            chosen = few.select(*kept, *values)
            if values:
                chosen = chosen.sortWithinPartitions(*[F.col(alias) for _, alias in task.value_columns])
            written = chosen.mapInArrow(task, _RESULT_SCHEMA).collect()
        return [row["path"] for row in written]

    def rewrite(self, paths: Sequence[str], staging: str, count: int) -> Sequence[str]:
        if self.format not in REWRITABLE:
            raise PipelineError(f"in S3, {' and '.join(REWRITABLE)} files can be compacted, not {self.format}")
        root = self.location.root
        names = [f"part-{number:05}{EXTENSIONS[self.format]}" for number in range(count)]
        rewrite_files(
            self._file_system,
            self.format,
            [f"{root}/{path}" for path in paths],
            [f"{root}/{staging}/{name}" for name in names],
        )
        return names


@dataclass(frozen=True)
class ArrowTask:
    """Pickled to the executors. The rows come ordered by directory, so one file is open at a time."""

    location: S3Location
    staging: str
    format: str
    partition_by: tuple[str, ...]
    max_rows_per_file: int

    @property
    def value_columns(self) -> Sequence[tuple[str, str]]:
        return [(name, _VALUE.format(number)) for number, name in enumerate(self.partition_by)]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        yield pa.RecordBatch.from_arrays(
            [pa.array(list(self.write(self.location.open(), batches)), pa.string())], ["path"]
        )

    def write(self, file_system: fs.FileSystem, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
        """Yields the paths, relative to the staging directory."""
        attempt = uuid.uuid4().hex
        writer, open_directory, room, number = None, "", 0, 0
        for directory, rows in self._by_directory(batches):
            while rows.num_rows:
                if writer is None or directory != open_directory or room == 0:
                    if writer is not None:
                        writer.close()
                    path = f"{directory}/" if directory else ""
                    path += f"part-{attempt}-{number:05}{EXTENSIONS[self.format]}"
                    full = f"{self.location.root}/{self.staging}/{path}"
                    writer = open_writer(file_system, full, self.format, rows.schema)
                    open_directory, room, number = directory, self.max_rows_per_file or -1, number + 1
                    yield path
                some = rows.slice(0, room) if room > 0 else rows
                writer.write(some)
                room -= some.num_rows if room > 0 else 0
                rows = rows.slice(some.num_rows)
        if writer is not None:
            writer.close()

    def _by_directory(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
        import pyarrow as pa

        aliases = [alias for _, alias in self.value_columns]
        for batch in batches:
            table = pa.Table.from_batches([batch])
            if not aliases:
                yield "", table
                continue
            for values in distinct_rows(table.select(aliases)):
                rows = table.filter(matching(table, dict(zip(aliases, values, strict=True)))).drop_columns(aliases)
                yield directory_of(self.partition_by, values), rows


def distinct_rows(table: pa.Table) -> Sequence[tuple[Any, ...]]:
    """The distinct rows, in the order in which they first appear."""
    distinct = table.group_by(table.column_names, use_threads=False).aggregate([])
    return [tuple(row.values()) for row in distinct.to_pylist()]


def matching(table: pa.Table, values: dict[str, Any]) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    mask = None
    for name, value in values.items():
        column = table[name]
        fits = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
        mask = fits if mask is None else pc.and_(mask, fits)
    return mask
