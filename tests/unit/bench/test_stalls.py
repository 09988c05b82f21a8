"""The bench sees what the watchdog wrote, once, and with the row in which it was."""

from __future__ import annotations

from pathlib import Path

from bench.stalls import LoopStalls, longest_turn_ms
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


def test_the_longest_turn_is_found_when_several_brokers_wrote_lines(tmp_path: Path) -> None:
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    servers = [ServerProcess("broker", [], port=1, log_path=log) for log in logs]
    assert longest_turn_ms(servers) == 0
    logs[0].write_text(f"WARN server.watchdog: {HELD} held_ms=150 by=x\nWARN other held_ms=900\n")
    logs[1].write_text(f"WARN server.watchdog: {HELD} held_ms=420\nWARN server.watchdog: {HELD} held_ms=180\n")
    assert longest_turn_ms(servers) == 420
