"""The bench sees what the watchdog wrote, once, and with the row in which it was."""

from __future__ import annotations

from pathlib import Path

from bench.stalls import LoopStalls
from penstock.server.monitoring.watchdog import HELD
from penstock.testing.processes import ServerProcess


def test_a_stall_is_told_once_when_the_log_has_its_line(tmp_path: Path) -> None:
    log = tmp_path / "process.log"
    server = ServerProcess("broker", [], port=1, log_path=log)
    stalls = LoopStalls()
    assert stalls.look(server, "large") == []
    log.write_text(f"INFO ready\nWARN server.watchdog: {HELD} held_ms=150 by=x\n")
    (told,) = stalls.look(server, "steady")
    assert told.startswith("steady: ")
    assert "held_ms=150" in told
    assert stalls.look(server, "latency") == []
    assert stalls.found == [told]
