"""Kafka's tools in one virtual machine that stays: most of a tool's time is the start of its own."""

from __future__ import annotations

import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from apache_kafka.jars import java_command

_SOURCE = Path(__file__).parent / "java" / "ToolServer.java"
_END_TIMEOUT_S = 10
# Kafka's broker learns of a change from its controller a little after the tool that made it has ended. The start of a
# virtual machine takes longer than that.
_PAUSE_S = 0.5


class ToolServer:
    """Runs one tool at a time. The process starts with the first one, and anew after one that did not end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_at = 0.0  # the last tool
        self._lock = threading.Lock()

    def run(self, main_class: str, arguments: Sequence[str], timeout_s: float) -> tuple[int, str, str]:
        """The exit code, and what was printed to the two streams. subprocess.TimeoutExpired: it did not end."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    java_command(str(_SOURCE)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            process = self._process
            assert process.stdin is not None
            assert process.stdout is not None
            time.sleep(max(0.0, self._ended_at + _PAUSE_S - time.monotonic()))
            deadline = time.monotonic() + timeout_s
            timer = threading.Timer(timeout_s, process.kill)
            timer.start()
            try:
                process.stdin.write(_request(main_class, arguments))
                process.stdin.flush()
                (code,) = struct.unpack(">i", _read(process.stdout, 4))
                return code, _read_text(process.stdout), _read_text(process.stdout)
            except (OSError, EOFError) as error:
                self._end()
                if time.monotonic() >= deadline:
                    raise subprocess.TimeoutExpired([main_class, *arguments], timeout_s) from error
                raise
            finally:
                timer.cancel()
                self._ended_at = time.monotonic()

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.communicate(timeout=_END_TIMEOUT_S)


def _request(main_class: str, arguments: Sequence[str]) -> bytes:
    words = [word.encode() for word in (main_class, *arguments)]
    return struct.pack(">i", len(words)) + b"".join(struct.pack(">i", len(word)) + word for word in words)


def _read(stream: IO[bytes], count: int) -> bytes:
    read = stream.read(count)
    if len(read) < count:
        raise EOFError("the process of Kafka's tools has ended")
    return read


def _read_text(stream: IO[bytes]) -> str:
    (length,) = struct.unpack(">i", _read(stream, 4))
    return _read(stream, length).decode()
