"""Servers run as processes of their own: start, wait until they answer, stop, kill, start again.

Used by clusters on one machine, and wherever a test needs what only a real process shows: signals, crashes, start-up
time, resident memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.core.guardian import Guardian
from penstock.core.leftovers import note_server
from penstock.processes.uninterrupted_work import uninterrupted

# Without a new line in its log. A server that recovers large logs logs its progress; one that cannot start exits at
# once.
START_TIMEOUT_S = 60.0
# In all, for a server that only logs why it is not ready.
_MOST_START_S = 1_800.0
STOP_TIMEOUT_S = 30.0
# A fine poll: tests start hundreds of brokers, and the benchmark measures start-up.
POLL_INTERVAL_S = 0.005
LOG_TAIL_LINES = 40
# Beneath the range that the kernel hands out to outgoing connections, so that no client can take a listener's port.
FIRST_FREE_PORT, LAST_FREE_PORT = 15_000, 32_000


def pause_process(pid: int) -> None:
    """Of a child of this process: when this returns, all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    if hasattr(os, "waitid"):  # not in every Python of macOS
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # the end of a child is left to its owner


class ServerProcessError(Exception):
    """The server ended or stayed silent; the text ends with the last lines of its log."""


def find_free_port(host: str = "127.0.0.1") -> int:
    """A port without a listener now; chosen outside the ephemeral range so that it stays free across restarts."""
    span = LAST_FREE_PORT - FIRST_FREE_PORT
    start = int.from_bytes(os.urandom(4), "big")
    for step in range(span):
        port = FIRST_FREE_PORT + (start + step) % span
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise ServerProcessError(f"no free port between {FIRST_FREE_PORT} and {LAST_FREE_PORT}")


class ServerProcess:
    """One listening server as a child process, its output appended to one log file across restarts.

    An unexpected end, or one with an unexpected exit code, is an error when the server is stopped or its block is left.
    """

    clean_exit_codes: frozenset[int] = frozenset({0})

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        port: int,
        log_path: Path,
        host: str = "127.0.0.1",
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.host = host
        self.port = port
        self.log_path = log_path
        self.environment = environment
        self.start_timeout_s = start_timeout_s
        self.most_start_s = max(_MOST_START_S, start_timeout_s)
        # 0 is a group of its own: Ctrl-C at the terminal does not reach the server.
        self.process_group: int | None = None
        # Ends the server should this process die, and in which order; the server needs a group of its own.
        self.guardian: Guardian | None = None
        self.guardian_stage = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._end_is_known = False

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerProcessError(f"{self.name} was not started")
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def unasked_end(self) -> str:
        """A description if the server ended without `stop` or `kill`; else empty."""
        return_code = None if self._process is None or self._end_is_known else self._process.poll()
        return "" if return_code is None else self.describe(f"ended with {_describe_exit(return_code)}")

    def start(self) -> Self:
        """Start and return once the server accepts connections."""
        self.spawn()
        self.wait_until_ready()
        return self

    def spawn(self) -> None:
        """Start without waiting."""
        if self.is_running:
            raise ServerProcessError(f"{self.name} is already running as process {self.pid}")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._end_is_known = False
        note_server(self)
        with self.log_path.open("ab") as log, uninterrupted():
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(self.environment or {})},
                process_group=self.process_group,
            )
        if self.guardian is not None:
            self.guardian.watch(self._process.pid, self.guardian_stage)

    def wait_until_ready(self) -> None:
        """Gives up when the server has been silent for its time."""
        began = heard_at = time.monotonic()
        heard = 0
        while not self.is_ready():
            said, now = self.log_path.stat().st_size, time.monotonic()
            if said != heard:
                heard, heard_at = said, now
            return_code = self.process.poll()
            if return_code is not None:
                raise ServerProcessError(self.describe(f"ended with {_describe_exit(return_code)} before it was ready"))
            if now > min(heard_at + self.start_timeout_s, began + self.most_start_s):
                self.kill()
                raise ServerProcessError(self.describe(f"did not listen on port {self.port} in {now - began:.0f} s"))
            time.sleep(POLL_INTERVAL_S)
        # The port may have been taken by another process between choosing it and starting; then ours is ending.
        if not self.is_running:
            raise ServerProcessError(self.describe(f"ended while another process listens on port {self.port}"))

    def terminate(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM, wait, and return the exit code; a server that ignores it is killed and reported."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return_code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerProcessError(self.describe(f"did not end within {timeout_s} s of SIGTERM")) from None
        self._note_end()
        if return_code not in self.clean_exit_codes:
            raise ServerProcessError(self.describe(f"was stopped and ended with {_describe_exit(return_code)}"))
        return return_code

    def kill(self) -> None:
        """SIGKILL: to the files and to the clients it looks like a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._note_end()

    def pause(self) -> None:
        """SIGSTOP: the server hangs, and its connections stay open."""
        if self.process.poll() is None:
            pause_process(self.pid)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _note_end(self) -> None:
        self._end_is_known = True
        if self.guardian is not None:
            self.guardian.forget(self.pid)

    def restart(self) -> Self:
        """A clean stop, then a start on the same port and data."""
        self.terminate()
        return self.start()

    def read_log(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self.log_path.read_text(errors="replace")
        return ""

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is None or self._end_is_known:
            return
        try:
            self.terminate()
        except ServerProcessError as error:
            # The failure that is already under way comes first; how the server ended may be its cause.
            if exception is None:
                raise
            exception.add_note(str(error))

    def is_ready(self) -> bool:
        """Whether the server accepts connections; subclasses ask the server itself."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1.0):
                return True
        except OSError:
            return False

    def describe(self, what: str) -> str:
        """`what` happened to the server, with its command and the end of its log."""
        tail = "\n".join(self.read_log().splitlines()[-LOG_TAIL_LINES:]) or "(nothing)"
        return f"{self.name} {what}\ncommand: {' '.join(self.command)}\nlast lines of {self.log_path}:\n{tail}"


class ServerGroup:
    """Servers that are started together: when one does not start, those before it are stopped."""

    _running: contextlib.ExitStack

    def start_all(self, stack: contextlib.ExitStack) -> None:
        """Starts them, and pushes onto `stack` how to stop each."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.start_all(stack)
            self._running = stack.pop_all()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.close()


def _describe_exit(return_code: int) -> str:
    return f"signal {signal.Signals(-return_code).name}" if return_code < 0 else f"exit code {return_code}"
