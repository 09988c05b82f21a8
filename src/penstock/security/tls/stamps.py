"""Whether files have changed, those of TLS settings above all. For a thread: a disk may be slow."""

from __future__ import annotations

import os

from penstock.security.tls.settings import TlsSettings

Stamp = tuple[int, int, int]
Stamps = tuple[Stamp | None, ...]


def read_stamps(settings: TlsSettings) -> Stamps:
    return tuple(map(stamp_of, settings.files))


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """Time, size and inode of a file, which show a change; None if no file is there. Reads the disk."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
