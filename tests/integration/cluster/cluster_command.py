"""`penstock cluster start` as a process, and what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

PATIENCE_S = 90.0
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "cluster", "start", *arguments]


class Running:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.said.append(line)
                self._news.notify_all()

    @property
    def text(self) -> str:
        return "".join(self.said)

    def wait_for(self, pattern: str) -> re.Match[str]:
        with self._news:
            assert self._news.wait_for(lambda: re.search(pattern, self.text), PATIENCE_S), self.text
        found = re.search(pattern, self.text)
        assert found is not None
        return found

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join()
        return code


@contextmanager
def running(*arguments: str, environment: Mapping[str, str] = NO_VARIABLES) -> Iterator[Running]:
    """`environment` is added to this process's."""
    with subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            yield Running(process)
        finally:
            process.terminate()  # nothing to a process that has ended
