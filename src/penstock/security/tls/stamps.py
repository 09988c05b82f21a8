"""Whether files have changed, those of TLS settings above all. For a thread: a disk may take its time."""

from __future__ import annotations

import os

from penstock.security.tls.settings import TlsSettings

Stamp = tuple[int, int, int]
Stamps = tuple[Stamp | None, ...]


def read_stamps(settings: TlsSettings) -> Stamps:
    return tuple(map(stamp_of, settings.files))


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """What tells that a file has changed; None for a file that is not there. Reads the disk."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
