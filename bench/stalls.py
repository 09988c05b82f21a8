"""What held our broker's event loop while a row was measured, in the words of its watchdog.

The watchdog counts slices above 100 ms in a metric, and writes a line for them that names the culprit. The bench reads
the lines: the endpoint of the metrics takes memory and processor time that the rows measure.
"""

from __future__ import annotations

from penstock.server.monitoring.watchdog import HELD
from penstock.testing.processes import ServerProcess


class LoopStalls:
    """Reads each line of a broker's log once. Other brokers than ours have no such lines."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}  # by path: how much of the log was read
        self.found: list[str] = []

    def look(self, server: ServerProcess, row: str) -> list[str]:
        """The stalls since the last look, each with the row in which it was."""
        log = server.read_log()
        start = self._read.get(str(server.log_path), 0)
        self._read[str(server.log_path)] = len(log)
        stalls = [f"{row}: {line}" for line in log[start:].splitlines() if HELD in line]
        self.found += stalls
        return stalls
