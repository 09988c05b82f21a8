"""The same mistake is told in the same words by every command, and every telling begins in the same way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.core.words.failure_text import describe_os_error

NO_PORT = "ports end at 65535"
NO_DIRECTORY = "{file} is a file, not a directory"
EXAMPLE = str(Path(__file__).parents[3] / "examples" / "word_count.py")


LINES = (
    ("broker start --data {new} --listen 127.0.0.1:99999", NO_PORT),
    ("broker start --data {new} --listen 127.0.0.1:0 --metrics 127.0.0.1:99999", NO_PORT),
    ("registry start --listen 127.0.0.1:99999", NO_PORT),
    ("registry start -b 127.0.0.1:99999", NO_PORT),
    ("rest start --listen 127.0.0.1:99999 -b 127.0.0.1:1", NO_PORT),
    ("streams serve app --listen 127.0.0.1:99999", NO_PORT),
    ("cluster start --port 65534", NO_PORT),
    ("topics list -b 127.0.0.1:99999", NO_PORT),
    ("cluster status -b 127.0.0.1:99999", NO_PORT),
    ("streams query app store -b 127.0.0.1:99999", NO_PORT),
    ("broker start --data {file}", NO_DIRECTORY),
    ("broker start --data {file}/deeper", NO_DIRECTORY),
    ("cluster start --data {file} --port 64990", NO_DIRECTORY),  # a broker may run at 9092
    ("cluster restart --data {file}", NO_DIRECTORY),
    ("zookeeper start --data {file} --port 23997", NO_DIRECTORY),
    ("streams serve app --data {file}", NO_DIRECTORY),
    ("pipeline describe {example} -b 127.0.0.1:99999 --set nonsense=1", "nonsense"),
)

# One process for all: servers change the handlers of signals, and of log lines.
PROBE = """
import contextlib, io, json, sys
from penstock.cli.main import main

def run(line):
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        return [main(line.split()), err.getvalue()]

json.dump([run(line) for line in json.load(sys.stdin)], sys.stdout)
"""


def test_mistake_is_told_in_the_same_words_whichever_command_meets_it(tmp_path: Path) -> None:
    """Servers began with "penstock:" and commands with "Error:"; a file in place of a directory was "File exists"."""
    file = tmp_path / "file"
    file.write_text("")
    places = {"new": tmp_path / "new", "file": file, "example": EXAMPLE}
    lines = [line.format(**places) for line, _ in LINES]
    done = subprocess.run(
        [sys.executable, "-c", PROBE], input=json.dumps(lines), capture_output=True, text=True, timeout=120, check=True
    )
    for line, (_, words), (code, told) in zip(lines, LINES, json.loads(done.stdout), strict=True):
        assert code in (1, 2), line
        assert told.startswith("Error: "), line
        assert words.format(**places) in told.splitlines()[0], line


def test_brokers_are_those_of_the_option_when_a_pipeline_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    """Every other command took -b."""
    assert main(["pipeline", "describe", EXAMPLE, "-b", "kafka9:9092"]) == 0
    assert "kafka9:9092" in capsys.readouterr().out


def test_error_of_the_system_is_told_without_its_number() -> None:
    assert describe_os_error(PermissionError(13, "Permission denied", "/x")) == "/x: permission denied"
    assert describe_os_error(TimeoutError("no answer")) == "no answer"
    bound = "error while attempting to bind on address ('::1', 9092, 0, 0): address already in use"
    assert describe_os_error(OSError(98, f"cannot listen on [::1]:9092: {bound}")).endswith(
        "9092: address already in use"
    )
    bound = "Address already in use (while attempting to bind on address ('127.0.0.1', 9092))"
    assert describe_os_error(OSError(98, bound)) == "Address already in use"
    assert describe_os_error(OSError(9, "Bad file descriptor", 9999)) == "Bad file descriptor"
    assert describe_os_error(FileExistsError(17, "File exists", "/")) == "/: file exists"


@pytest.mark.parametrize(
    "line", ["sql --file FILE", "reassign apply FILE -b 127.0.0.1:1", "leaders elect --file FILE -b 127.0.0.1:1"]
)
def test_a_file_that_is_no_text_is_named_when_text_is_wanted(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(b"\xff\xfe")
    assert main(line.replace("FILE", str(file)).split()) == 2
    assert capsys.readouterr().err == f"Error: {file} is not a text file\n"


@pytest.mark.parametrize(
    "line", ["topics describe a\udcff", "consume a\udcff --exit", "sql a\udcff", "broker start --data a\udcff"]
)
def test_an_argument_is_refused_when_it_is_no_text(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr().err == "Error: the argument 'a\\udcff' is no UTF-8 text\n"


def test_a_variable_is_refused_when_it_is_no_text() -> None:
    variables = {**os.environb, b"PENSTOCK_BOOTSTRAP": b"a\xffb"}
    command = [sys.executable, "-m", "penstock", "topics", "list"]
    run = subprocess.run(command, env=variables, capture_output=True, timeout=60)
    assert run.returncode == 2
    assert run.stderr == b"Error: the variable PENSTOCK_BOOTSTRAP: 'a\\udcffb' is no UTF-8 text\n"


def test_the_input_is_refused_when_it_is_no_text(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "sql", "-b", "127.0.0.1:1"]
    run = subprocess.run(command, input=b"SELECT '\xff'", capture_output=True, timeout=60)
    assert (run.returncode, run.stderr) == (2, b"Error: the input is not a text file\n")
