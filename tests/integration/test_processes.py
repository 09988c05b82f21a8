from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.testing.processes import ServerProcess, ServerProcessError, find_free_port

LISTEN = """
import signal, socket, sys, time
signal.signal(signal.SIGTERM, ON_SIGNAL)
print("listening", flush=True)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(60)
"""
OBEDIENT = LISTEN.replace("ON_SIGNAL", "lambda *_: sys.exit(0)")
FAILS_AT_STOP = LISTEN.replace("ON_SIGNAL", "lambda *_: sys.exit(3)")
STUBBORN = LISTEN.replace("ON_SIGNAL", "signal.SIG_IGN")
DIES_AT_ONCE = "print('the disk is on fire'); raise SystemExit(7)"
SILENT = "import time; time.sleep(60)"
# Long at work, and says so.
LOADS = f"""
import time
for number in range(20):
    print("recovering", number, flush=True)
    time.sleep(0.1)
{OBEDIENT}"""


def make_server(directory: Path, program: str, start_timeout_s: float = 20.0) -> ServerProcess:
    port = find_free_port()
    command = [sys.executable, "-c", program, str(port)]
    return ServerProcess("server", command, port=port, log_path=directory / "log", start_timeout_s=start_timeout_s)


def test_server_is_ready_and_then_gone_when_used_as_a_block(tmp_path: Path) -> None:
    with make_server(tmp_path, OBEDIENT) as server:
        assert server.is_running
        assert "listening" in server.read_log()
    assert not server.is_running


def test_log_is_shown_when_the_server_dies_before_it_is_ready(tmp_path: Path) -> None:
    with pytest.raises(ServerProcessError, match=r"(?s)exit code 7 before it was ready.*the disk is on fire"):
        make_server(tmp_path, DIES_AT_ONCE).start()


def test_server_is_stopped_when_it_never_listens(tmp_path: Path) -> None:
    server = make_server(tmp_path, SILENT, start_timeout_s=0.3)
    with pytest.raises(ServerProcessError, match="did not listen on port"):
        server.start()
    assert not server.is_running


def test_server_is_awaited_beyond_its_time_when_it_tells_of_its_work(tmp_path: Path) -> None:
    with make_server(tmp_path, LOADS, start_timeout_s=1.0) as server:
        assert "recovering 19" in server.read_log()


def test_server_is_given_up_when_it_only_tells_why_it_is_not_ready(tmp_path: Path) -> None:
    server = make_server(tmp_path, LOADS, start_timeout_s=20.0)
    server.most_start_s = 0.5
    with pytest.raises(ServerProcessError, match=r"(?s)did not listen on port.*recovering"):
        server.start()
    assert not server.is_running


def test_server_is_killed_and_reported_when_it_ignores_the_signal(tmp_path: Path) -> None:
    server = make_server(tmp_path, STUBBORN).start()
    with pytest.raises(ServerProcessError, match="did not end within"):
        server.terminate(timeout_s=0.3)
    assert not server.is_running


def test_stop_is_an_error_when_the_server_fails_while_stopping(tmp_path: Path) -> None:
    server = make_server(tmp_path, FAILS_AT_STOP).start()
    with pytest.raises(ServerProcessError, match="was stopped and ended with exit code 3"):
        server.terminate()


def test_leaving_the_block_is_an_error_when_the_server_died_unasked(tmp_path: Path) -> None:
    server = make_server(tmp_path, OBEDIENT).start()
    server.process.kill()
    server.process.wait()
    with pytest.raises(ServerProcessError, match="SIGKILL"):
        server.__exit__(None, None, None)


def test_leaving_the_block_is_quiet_when_the_test_killed_the_server(tmp_path: Path) -> None:
    with make_server(tmp_path, OBEDIENT) as server:
        server.kill()


def test_server_is_another_process_on_the_same_port_when_restarted(tmp_path: Path) -> None:
    with make_server(tmp_path, OBEDIENT) as server:
        first = server.pid
        server.restart()
        assert server.pid != first
        assert server.read_log().count("listening") == 2


def test_start_is_refused_when_the_server_is_running(tmp_path: Path) -> None:
    with make_server(tmp_path, OBEDIENT) as server, pytest.raises(ServerProcessError, match="already running"):
        server.spawn()


def test_unasked_end_is_told_until_the_server_is_killed_or_started_again(tmp_path: Path) -> None:
    with make_server(tmp_path, OBEDIENT) as server:
        assert server.unasked_end == ""
        server.process.kill()
        server.process.wait()
        assert "ended with signal SIGKILL" in server.unasked_end
        server.start()
        assert server.unasked_end == ""
        server.terminate()
        assert server.unasked_end == ""


def test_server_is_out_of_reach_of_the_terminal_when_it_has_a_group_of_its_own(tmp_path: Path) -> None:
    server = make_server(tmp_path, OBEDIENT)
    server.process_group = 0
    with server:
        assert os.getpgid(server.pid) == server.pid
    with make_server(tmp_path, OBEDIENT) as other:
        assert os.getpgid(other.pid) == os.getpgid(0)
