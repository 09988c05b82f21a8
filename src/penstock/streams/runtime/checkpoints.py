"""Files of an application's checkpoint, wherever it is: Spark's own file systems read and write them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.pipelines.sinks.files.hadoop import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files(Protocol):
    """Names are relative to a directory, which need not exist. Raises OSError."""

    def read(self, name: str) -> str | None: ...

    def write(self, name: str, text: str) -> None:
        """The file is there with all of the text, or as it was before."""

    def list(self, name: str) -> frozenset[str]: ...


class LocalFiles:
    """The files of a checkpoint on this machine, before Spark is there. Nothing is written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, name: str) -> str | None:
        try:
            return (self._directory / name).read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, text: str) -> None:
        raise OSError("a check writes nothing")

    def list(self, name: str) -> frozenset[str]:
        directory = self._directory / name
        return frozenset(each.name for each in directory.iterdir()) if directory.is_dir() else frozenset()


class CheckpointFiles:
    def __init__(self, spark: SparkSession, location: str) -> None:
        with _java_errors():
            self._files = HadoopFiles(spark, location)

    def read(self, name: str) -> str | None:
        with _java_errors():
            return self._files.read(name) if self._files.exists(name) else None

    def write(self, name: str, text: str) -> None:
        with _java_errors():
            self._files.replace(name, text)

    def list(self, name: str) -> frozenset[str]:
        with _java_errors():
            return frozenset(self._files.names(name))


@contextmanager
def _java_errors() -> Iterator[None]:
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        raise OSError(str(error.java_exception.toString())) from None
