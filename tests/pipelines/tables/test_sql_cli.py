"""`penstock sql` as a process of its own. Two processes start Spark; many statements share each."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.seen_runs import wait_until
from tests.pipelines.committed import unique

# Starting Spark on a machine that is busy with other tests.
START_S = 120.0
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    name = unique("sql_cli").replace("-", "_")  # needs no backticks
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce(
            name, json.dumps({"id": number, "name": f"n{number}", "tags": ["a", None]}), key=f"k{number % 3}"
        )
    assert producer.flush(30) == 0
    return name


def penstock(*arguments: str, bootstrap: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "sql", "-b", bootstrap, *arguments]
    env = os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False, env=env, input="")


def test_script_answers_until_a_statement_is_refused(bootstrap: str, topic: str, tmp_path: Path) -> None:
    script, views = tmp_path / "script.sql", tmp_path / "views.sql"
    script.write_text(
        f"CREATE VIEW low AS SELECT * FROM {topic} WHERE id < 2; -- kept\n"
        "SELECT id, name, tags, _key, _offset FROM low ORDER BY id DESC;\n"
        "SELECT CAST(1.50 AS DECIMAL(5, 2)) AS d, X'00FF' AS b, TIMESTAMP'2026-11-17 06:00:00Z' AS t,"
        " map('k', 1) AS m;\n"
        f"SHOW TABLES LIKE '{topic}';\n"
        f"SELECT nme FROM {topic};\n"
        "SELECT 'never';\n"
    )
    ran = penstock("-f", str(script), "--output", "json", "--views", str(views), "--timing", bootstrap=bootstrap)
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        {"id": 1, "name": "n1", "tags": ["a", None], "_key": "k1", "_offset": 1},
        {"id": 0, "name": "n0", "tags": ["a", None], "_key": "k0", "_offset": 0},
        {"d": "1.50", "b": "AP8=", "t": "2026-11-17T06:00:00Z", "m": {"k": 1}},
        {"table": topic},
    ], ran.stderr
    assert ran.returncode == 1
    assert "Error: there is no column nme" in ran.stderr
    assert "inferred from 20 records" in ran.stderr
    assert re.search(r"^2 rows, \d+\.\d\d s$", ran.stderr, re.MULTILINE)
    assert "Traceback" not in ran.stderr
    assert "CREATE VIEW `low`" in views.read_text()


def test_command_says_at_once_that_there_is_no_broker() -> None:
    ran = penstock("SELECT 1", bootstrap="127.0.0.1:1")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith("Error: no broker answers at 127.0.0.1:1")


def test_command_says_that_there_is_no_java(bootstrap: str, tmp_path: Path) -> None:
    ran = penstock("SELECT 1", bootstrap=bootstrap, PATH=str(tmp_path), JAVA_HOME="")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "needs Java 17" in ran.stderr
    assert "Traceback" not in ran.stderr


# Leaves a file in Java's temporary directory, as a sign that it runs: for a row, since what needs no row is done while
# Spark plans.
_SIGN = "SELECT java_method('java.io.File', 'createTempFile', 'sign', CAST(id AS STRING)) AS file FROM range(1)"
NEVER_ENDING = (
    f"SELECT count(*) FROM ({_SIGN}) CROSS JOIN range(10000000) a CROSS JOIN range(10000000) b"
    " WHERE file IS NOT NULL AND a.id + b.id = 3"
)


class Terminal:
    """A pseudo-terminal with the shell in it."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.said = ""

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def wait_for(self, pattern: str, timeout_s: float = START_S) -> str:
        """What came until the pattern did. What follows is left for the next time."""
        deadline = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.said, re.MULTILINE)):
            assert time.monotonic() < deadline, f"no {pattern!r} in:\n{self.said}"
            if select.select([self._file], [], [], 0.5)[0]:
                self.said += _ESCAPE.sub("", os.read(self._file, 65536).decode(errors="replace"))
        before, self.said = self.said[: found.end()], self.said[found.end() :]
        return before


@contextmanager
def shell(*arguments: str, **environment: str) -> Iterator[tuple[Terminal, int]]:
    child, file = pty.fork()
    if child == 0:
        os.environ.update({"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **environment})
        os.execv(sys.executable, [sys.executable, "-m", "penstock", "sql", *arguments])
    fcntl.ioctl(file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    try:
        yield Terminal(file), child
    finally:
        os.close(file)
        try:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def test_shell_goes_on_when_questions_are_cancelled_or_refused(bootstrap: str, topic: str, tmp_path: Path) -> None:
    target = tmp_path / "state" / "penstock" / "sql_history"
    java = f"spark.driver.extraJavaOptions=-Djava.io.tmpdir={tmp_path}"
    options = ("-b", bootstrap, "--views", str(tmp_path / "v.sql"), "--set", java)
    with shell(*options, XDG_STATE_HOME=str(tmp_path / "state")) as (terminal, child):
        terminal.wait_for("sql> ", 60)  # long before Spark is up
        terminal.type(f"SELECT name, id\r FROM {topic} WHERE id = 7;\r")
        assert re.search(r"^n7 +7", terminal.wait_for(r"1 row, \d+\.\d\d s"), re.MULTILINE)
        terminal.type(f"{NEVER_ENDING};\r")
        wait_until(lambda: list(tmp_path.glob("sign*")) != [])
        terminal.type("\x03")
        terminal.wait_for("Cancelled.", 30)
        terminal.type(f"SELECT nam FROM {topic};\r")
        assert "there is no column nam" in terminal.wait_for(r"there is name.*")
        terminal.wait_for("sql>")  # Ctrl-C and Ctrl-D are for the prompt, once it is there
        terminal.type("half a line\x03")
        terminal.type(f"SELECT min(_offset) AS first, max(_offset) AS last FROM {topic};\r")
        assert re.search(r"^ +0 +19", terminal.wait_for(r"1 row, \d+\.\d\d s"), re.MULTILINE)
        terminal.wait_for("sql>")
        terminal.type("\x04")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "+SELECT nam FROM" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o600
