"""What held our broker's event loop while a row was measured, in the words of its watchdog.

The watchdog counts slices above 100 ms in a metric, and writes a line for them that names the culprit. The bench reads
the lines: the endpoint of the metrics takes memory and processor time that the rows measure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.server.monitoring.watchdog import HELD
from penstock.testing.processes import ServerProcess

_HELD_MS = re.compile(r"\bheld_ms=(\d+)")


def longest_turn_ms(servers: Iterable[ServerProcess]) -> int:
    """Of the event loops of these brokers since their first start. 0 where no turn was long enough for a line."""
    lines = (line for server in servers for line in server.read_log().splitlines() if HELD in line)
    return max((int(found[1]) for line in lines if (found := _HELD_MS.search(line))), default=0)


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
