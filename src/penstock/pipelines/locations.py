"""Where files are, as Spark writes it: a path, or a URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlparse


def local_path(location: str) -> Path | None:
    """None for what is on another machine."""
    parsed = urlparse(location)
    if parsed.scheme not in ("", "file"):
        return None
    return Path(parsed.path if parsed.scheme else location)


def path_here(location: str, default_file_system: str) -> Path | None:
    """The path of files that Spark itself writes. A path without a scheme is in Spark's default file system; None where
    that is on another machine, or not known (empty)."""
    has_scheme = "://" in location or location.startswith("file:")
    return local_path(location) if has_scheme or default_file_system.startswith("file:") else None
