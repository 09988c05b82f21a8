"""Builds the program in the directory `go`, with the modules that go.mod names, where Go and these can be had."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from apache_kafka.jars import REPOSITORY, PeerUnavailableError

_SOURCES = Path(__file__).parent / "go"
# Fetching some megabytes and compiling them once.
_TIMEOUT_S = 300


def build_go() -> Path:
    """The program, built on first use. It is named by its sources, so that a changed one is built anew."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_SOURCES.iterdir()))).hexdigest()[:12]
    program = REPOSITORY / ".cache" / f"go-beginnings-{digest}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise PeerUnavailableError("Go is missing: install it (Debian: apt-get install golang-go) and run again")
    # Built beside its place and renamed when whole: an interrupted build must not look complete.
    partial = program.with_name(f"{program.name}.{os.getpid()}.partial")
    program.parent.mkdir(exist_ok=True)
    try:
        built = subprocess.run(
            [go, "build", "-mod=readonly", "-o", str(partial), "."],
            cwd=_SOURCES,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailableError(f"Go did not build its program within {_TIMEOUT_S} s") from error
    if built.returncode != 0:
        raise PeerUnavailableError(f"Go could not build its program:\n{built.stderr[-3000:]}")
    partial.rename(program)
    return program
