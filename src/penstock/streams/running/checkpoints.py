"""Files of an application's checkpoint, wherever it is: Spark's own file systems read and write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files(Protocol):
    """Names are relative to a directory, which need not exist."""

    def read(self, name: str) -> str | None: ...

    def write(self, name: str, text: str) -> None:
        """The file is there with all of the text, or as it was before."""

    def list(self, name: str) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    spark: SparkSession
    location: str

    def read(self, name: str) -> str | None:
        path, files = self._path(name)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return str(self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        path, files = self._path(name)
        beside, _ = self._path(f"{name}.new")
        stream = files.create(beside, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        files.delete(path, False)  # Hadoop's rename replaces nothing
        files.rename(beside, path)

    def list(self, name: str) -> frozenset[str]:
        path, files = self._path(name)
        if not files.exists(path):
            return frozenset()
        return frozenset(str(entry.getPath().getName()) for entry in files.listStatus(path))

    @property
    def _java(self) -> Any:
        return self.spark._jvm

    def _path(self, name: str) -> tuple[Any, Any]:
        path = self._java.org.apache.hadoop.fs.Path(f"{self.location}/{name}")
        return path, path.getFileSystem(self.spark._jsc.hadoopConfiguration())
