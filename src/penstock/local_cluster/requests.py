"""Requests of other commands to the one that runs a cluster: files in the cluster's directory, no server of its own.

requests/ID.request   what is wanted: a broker restarted, perhaps with other settings
requests/ID.answer    written by the command that runs the cluster; empty error: done

Each file appears whole, under its final name. The command that runs the cluster holds the directory's lock, so the
sender of a request knows whether a command is there to answer. Requests of an earlier run are void.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.local_cluster.directory import LOCK
from penstock.local_cluster.errors import ClusterError
from penstock.log.storage.files import Files

_FORMAT = 1
_REQUEST, _ANSWER = ".request", ".answer"
_POLL_S = 0.05


class RestartRequest(NamedTuple):
    request_id: str
    node_id: int
    config: Mapping[str, str]


class RequestBox:
    """Of one cluster's directory, for both sides."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / "requests"

    # ---------------------------------------------------------------------------------------- for other commands

    def is_served(self) -> bool:
        """Whether a cluster runs on the directory."""
        if not (self._directory / LOCK).exists():
            return False
        try:
            Files().lock(self._directory / LOCK).close()
        except BlockingIOError:
            return True
        return False

    def ask_restart(self, node_id: int, config: Mapping[str, str], timeout_s: float) -> None:
        """Returns when the broker has been stopped and started. The ClusterError has the reason if not."""
        if not self.is_served():
            raise ClusterError(
                f"no cluster runs on {self._directory}", f"Start it: penstock cluster start --data {self._directory}"
            )
        self._path.mkdir(mode=0o700, exist_ok=True)
        request_id = uuid.uuid4().hex
        document = {"format": _FORMAT, "restart": node_id, "config": dict(config)}
        self._write(request_id + _REQUEST, document)
        deadline = time.monotonic() + timeout_s
        answer = self._path / (request_id + _ANSWER)
        try:
            while not answer.exists():
                if time.monotonic() >= deadline:
                    raise ClusterError(f"the command that runs the cluster did not answer within {timeout_s:g} s")
                time.sleep(_POLL_S)
            error = json.loads(answer.read_text())["error"]
        finally:
            for suffix in (_REQUEST, _ANSWER):
                (self._path / (request_id + suffix)).unlink(missing_ok=True)
        if error:
            raise ClusterError(error)

    # ------------------------------------------------------------------ for the command that runs the cluster

    def clear(self) -> None:
        for path in list(self._path.iterdir()) if self._path.is_dir() else ():
            path.unlink(missing_ok=True)

    def take(self) -> RestartRequest | None:
        """The next request, oldest first. It must be answered. One that cannot be understood is answered here."""
        for path in self._list(f"*{_REQUEST}"):
            request_id = path.name.removesuffix(_REQUEST)
            with contextlib.suppress(FileNotFoundError):  # the asker has gone
                try:
                    document = json.loads(path.read_text())
                    config = {str(key): str(value) for key, value in document["config"].items()}
                    request = RestartRequest(request_id, int(document["restart"]), config)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    self.answer(request_id, f"the request cannot be understood: {error!r}")
                    continue
                return request
        return None

    def answer(self, request_id: str, error: str = "") -> None:
        with contextlib.suppress(FileNotFoundError):
            self._write(request_id + _ANSWER, {"format": _FORMAT, "error": error})
            (self._path / (request_id + _REQUEST)).unlink()

    def _list(self, pattern: str) -> list[Path]:
        """Without the files that are being written: their names begin with a dot, which `glob` does not mind."""
        if not self._path.is_dir():
            return []
        whole = [path for path in self._path.glob(pattern) if not path.name.startswith(".")]
        return sorted(whole, key=_modified_ns)

    def _write(self, name: str, document: object) -> None:
        hidden = self._path / f".{name}"
        hidden.write_text(json.dumps(document))
        os.replace(hidden, self._path / name)


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
