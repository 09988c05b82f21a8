"""File operations through Hadoop's own classes, which Spark brings along: local directories, HDFS, and whatever else is
on the class path."""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.pipelines.sinks.files.operations import StoredFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles:
    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._settings = settings = spark._jsparkSession.sessionState().newHadoopConf()
        # Looked up once: each dot of the name is a call into Java.
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._streams = jvm.org.apache.commons.io.IOUtils
        base = self._path_class(root)
        self._file_system = base.getFileSystem(settings)
        self.root = str(self._file_system.makeQualified(base).toString()).rstrip("/")

    def names(self, directory: str) -> Sequence[str]:
        path = self._path(directory)
        if not self._file_system.exists(path):
            return []
        statuses = self._file_system.listStatus(path)
        return sorted(str(status.getPath().getName()) for status in statuses if status.isFile())

    def walk(self, directory: str) -> Sequence[StoredFile]:
        path = self._path(directory)
        if not self._file_system.exists(path):
            return []
        base = str(path.toString()) + "/"
        remaining = self._file_system.listFiles(path, True)
        files = []
        while remaining.hasNext():
            status = remaining.next()
            files.append(StoredFile(str(status.getPath().toString()).removeprefix(base), int(status.getLen())))
        return sorted(files, key=lambda file: file.path)

    def exists(self, path: str) -> bool:
        return bool(self._file_system.exists(self._path(path)))

    def read(self, path: str) -> str:
        stream = self._file_system.open(self._path(path))
        try:
            return str(self._streams.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        temporary = self._write_beside(path, text)
        self._rename(temporary, self._path(path))
        self._file_system.delete(temporary, False)  # it is still there where the target was first

    def replace(self, path: str, text: str) -> None:
        """The file has its old text or the new one, whenever the process ends. Hadoop's FileContext can rename over a
        file, and FileSystem cannot. File systems without a FileContext are object stores, whose files appear when they
        are written to the end."""
        from py4j.protocol import Py4JJavaError

        target = self._path(path)
        hadoop = self._jvm.org.apache.hadoop.fs
        try:
            context = hadoop.FileContext.getFileContext(target.toUri(), self._settings)
        except Py4JJavaError as error:
            if "UnsupportedFileSystemException" not in str(error.java_exception.toString()):
                raise
            self._write(target, text)
            return
        rename = getattr(hadoop, "Options$Rename")
        how = self._gateway.new_array(rename, 1)
        how[0] = rename.OVERWRITE
        context.rename(self._write_beside(path, text), target, how)

    def _write_beside(self, path: str, text: str) -> Any:
        temporary = self._path(posixpath.join(posixpath.dirname(path), f".{uuid.uuid4().hex}.tmp"))
        self._write(temporary, text)
        return temporary

    def _write(self, path: Any, text: str) -> None:
        stream = self._file_system.create(path, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()

    def move(self, source: str, target: str) -> None:
        new = self._path(target)
        self._file_system.mkdirs(new.getParent())
        self._rename(self._path(source), new)

    def delete(self, path: str) -> None:
        self._file_system.delete(self._path(path), True)

    def _rename(self, source: Any, target: Any) -> None:
        # Some file systems say no where others raise; a target that is there can only be an equal one.
        if not self._file_system.rename(source, target) and not self._file_system.exists(target):
            raise OSError(f"{source.toString()} could not be renamed to {target.toString()}")

    def _path(self, path: str) -> Any:
        return self._path_class(f"{self.root}/{path}" if path else self.root)
