"""The few file operations that writing a batch exactly once is made of, and how Arrow's file systems do them."""

from __future__ import annotations

import contextlib
import posixpath
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyarrow import fs


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    size: int


class Files(Protocol):
    """Paths are relative to the root of the lake or table."""

    def names(self, directory: str) -> Sequence[str]:
        """The names of the files directly in a directory; none where the directory does not exist."""

    def walk(self, directory: str) -> Sequence[StoredFile]:
        """All files below it, by their paths relative to it, in the order of their names."""

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> str: ...

    def write(self, path: str, text: str) -> None:
        """A reader finds all of the text or no file. Where there is a file already, one of the two texts stays."""

    def move(self, source: str, target: str) -> None:
        """Makes the directories of `target`. Interrupted, it may leave both; never a part of `target`, never none."""

    def delete(self, path: str) -> None:
        """A file, or a directory with all that is in it; nothing where there is none."""


class ArrowFiles:
    """Files in S3, whose objects appear whole, or in a local directory."""

    def __init__(self, file_system: fs.FileSystem, root: str) -> None:
        self._file_system = file_system
        self._root = root.rstrip("/")
        # Directories are part of an object's name there: making one would leave an empty object behind.
        self._has_directories = file_system.type_name != "s3"

    def names(self, directory: str) -> Sequence[str]:
        return [file.path for file in self._list(directory, recursive=False)]

    def walk(self, directory: str) -> Sequence[StoredFile]:
        return self._list(directory, recursive=True)

    def exists(self, path: str) -> bool:
        from pyarrow import fs

        kind = self._file_system.get_file_info(self._full(path)).type
        return bool(kind != fs.FileType.NotFound)

    def read(self, path: str) -> str:
        with self._file_system.open_input_stream(self._full(path)) as stream:
            return bytes(stream.read()).decode()

    def write(self, path: str, text: str) -> None:
        if not self._has_directories:
            self._put(path, text)
            return
        temporary = posixpath.join(posixpath.dirname(path), f".{uuid.uuid4().hex}.tmp")
        self._make_parent(temporary)
        self._put(temporary, text)
        self._file_system.move(self._full(temporary), self._full(path))

    def move(self, source: str, target: str) -> None:
        self._make_parent(target)
        self._file_system.move(self._full(source), self._full(target))

    def delete(self, path: str) -> None:
        from pyarrow import fs

        full = self._full(path)
        kind = self._file_system.get_file_info(full).type
        with contextlib.suppress(FileNotFoundError):
            if kind == fs.FileType.Directory:
                self._file_system.delete_dir(full)
            elif kind != fs.FileType.NotFound:
                self._file_system.delete_file(full)

    def _list(self, directory: str, *, recursive: bool) -> Sequence[StoredFile]:
        from pyarrow import fs

        base = self._full(directory)
        wanted = fs.FileSelector(base, allow_not_found=True, recursive=recursive)
        infos = self._file_system.get_file_info(wanted)
        # An object whose name ends in a slash only marks a directory.
        files = [
            StoredFile(posixpath.relpath(info.path, base), info.size)
            for info in infos
            if info.type == fs.FileType.File and not info.path.endswith("/")
        ]
        return sorted(files, key=lambda file: file.path)

    def _put(self, path: str, text: str) -> None:
        with self._file_system.open_output_stream(self._full(path)) as stream:
            stream.write(text.encode())

    def _make_parent(self, path: str) -> None:
        if self._has_directories:
            self._file_system.create_dir(posixpath.dirname(self._full(path)), recursive=True)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root
