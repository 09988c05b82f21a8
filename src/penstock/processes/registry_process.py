"""A schema registry as a process of its own."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.processes.server_process import START_TIMEOUT_S, ServerProcess, find_free_port

_LOOK_S = 1.0


class RegistryProcess(ServerProcess):
    """A registry started as a user starts it: `penstock registry start`. Ready when it serves reads and writes."""

    def __init__(
        self,
        bootstrap_servers: str,
        log_path: Path,
        *,
        port: int | None = None,
        config: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        chosen_port = find_free_port() if port is None else port
        settings = [argument for key, value in (config or {}).items() for argument in ("--set", f"{key}={value}")]
        super().__init__(
            "penstock registry",
            [
                *(sys.executable, "-m", "penstock.cli.main", "registry", "start"),
                *("--listen", f"127.0.0.1:{chosen_port}", "--bootstrap-server", bootstrap_servers),
                *settings,
                *arguments,
            ],
            port=chosen_port,
            log_path=log_path,
            start_timeout_s=start_timeout_s,
        )

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def is_ready(self) -> bool:
        return self._status("/readyz") == 200

    def is_leader(self) -> bool:
        """Whether the registry's own metrics show that it may write; False if it does not answer."""
        return "\npenstock_registry_leader 1\n" in self._read("/metrics")

    def _status(self, path: str) -> int:
        return self._get(path)[0]

    def _read(self, path: str) -> str:
        return self._get(path)[1]

    def _get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_LOOK_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()
