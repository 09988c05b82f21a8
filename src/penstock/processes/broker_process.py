"""A Penstock broker as a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.processes.server_process import START_TIMEOUT_S, ServerProcess, find_free_port


class BrokerProcess(ServerProcess):
    """A Penstock broker started as a user starts it: `penstock broker start`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        config: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        log_path: Path | None = None,
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.data_dir = data_dir
        chosen_port = find_free_port() if port is None else port
        settings = [argument for key, value in (config or {}).items() for argument in ("--set", f"{key}={value}")]
        super().__init__(
            "penstock broker",
            [
                *(sys.executable, "-m", "penstock.cli.main", "broker", "start"),
                *("--data", str(data_dir), "--listen", f"127.0.0.1:{chosen_port}"),
                *settings,
                *arguments,
            ],
            port=chosen_port,
            # Beside the data, not in it: a broker may treat an unknown file in its directory as damage.
            log_path=data_dir.with_name(f"{data_dir.name}.process.log") if log_path is None else log_path,
            environment=environment,
            start_timeout_s=start_timeout_s,
        )
