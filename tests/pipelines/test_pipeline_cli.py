"""`penstock pipeline`, as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.pipelines.committed import committed_values, make_topic, unique

REPOSITORY = Path(__file__).parents[2]
WORD_COUNT = str(REPOSITORY / "examples" / "word_count.py")
IP_FRAUD = "penstock.pipelines.jobs.ip_fraud"
# Starting Spark on a machine that is busy with other tests.
START_S = 90.0


def penstock(*arguments: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "pipeline", *arguments]
    env = os.environ | environment
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=START_S, check=False, env=env)


@contextmanager
def running(*arguments: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """In a process group of its own, so that a Ctrl-C can be sent as a terminal sends it: to the JVM too."""
    command = [sys.executable, "-m", "penstock", "pipeline", "run", *arguments]
    with subprocess.Popen(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def read_until(process: subprocess.Popen[str], pattern: str) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if found := re.search(pattern, line):
            assert "incubator" not in said  # what Java warns of at every start of Spark
            return found[0]
    raise AssertionError(f"no {pattern!r} in:\n{said}")


@contextmanager
def producing(bootstrap: str, topic: str, value: str) -> Iterator[None]:
    """One record every few milliseconds."""
    producer = Producer({"bootstrap.servers": bootstrap})
    ended = threading.Event()

    def produce() -> None:
        while not ended.wait(0.01):
            producer.produce(topic, value)
            producer.poll(0)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush(30)


def scrape(address: str, wanted: str) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with urllib.request.urlopen(address) as answer:
            text: str = answer.read().decode()
        if wanted in text:
            return text
        time.sleep(0.3)
    raise AssertionError(f"no {wanted!r} in:\n{text}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_metrics_are_served_and_the_run_ends_cleanly_when_a_signal_comes(
    bootstrap: str, tmp_path: Path, number: signal.Signals
) -> None:
    lines, counts = make_topic(bootstrap, "lines"), unique("counts")
    sets = [f"source={lines}", f"target={counts}", f"bootstrap_servers={bootstrap}", "metrics_port=0"]
    options = [part for each in sets for part in ("--set", each)]
    with (
        producing(bootstrap, lines, "to be or not to be"),  # so that a batch is at work when the signal comes
        running(WORD_COUNT, "--master", "local[1]", *options, directory=tmp_path) as process,
    ):
        address = read_until(process, r"http://127\.0\.0\.1:\d+/metrics")
        text = scrape(address, "rows_written_total{")
        labels = f'{{pipeline="word-count",query="word-count/counts",sink="{counts}"}}'
        written = re.search(rf"penstock_pipeline_rows_written_total{re.escape(labels)} (\d+)\.0", text)
        assert written, text
        # Four different words a batch, and more than one batch may have ended by now.
        assert int(written[1]) in range(4, 400, 4)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert "Traceback" not in said
        assert "Exception" not in said
        assert "Error" not in said
    found = [int(value) for value in committed_values(bootstrap, counts)]
    assert found.count(max(found)) == 2, found  # "to" and "be"
    assert found.count(max(found) // 2) >= 2, found  # "or" and "not", in the same batch
    assert (tmp_path / "checkpoints" / "word-count" / "counts" / "commits").is_dir()


def test_pipelines_are_listed_and_drawn_when_asked_for(tmp_path: Path) -> None:
    listed = penstock("list", IP_FRAUD, directory=tmp_path)
    assert "ip_fraud" in listed.stdout
    drawn = penstock("describe", IP_FRAUD, "--set", "window=5 minutes", directory=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    for part in ("topic iprecord", "parse_access_log", "fraudip", "Hive table fraud_requests", "tumbling(5 minutes)"):
        assert part in drawn.stdout
    assert "penstock-ip-fraud, penstock-ip-fraud-counts" in drawn.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("describe", "no_such_module"), "there is no module 'no_such_module'"),
        (("run", "nowhere.py"), "there is no file nowhere.py"),
        (("describe", "json"), "json has no pipeline"),
        (("describe", IP_FRAUD, "--set", "windo=1"), "Did you mean window?"),
        (("describe", IP_FRAUD, "--set", "window"), "'window' is not a setting"),
        (("describe", IP_FRAUD, "--set", "ranges=/nowhere"), "the ranges cannot be read"),
    ],
)
def test_it_says_what_is_wrong_when_a_pipeline_cannot_be_found_or_set(
    arguments: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    answer = penstock(*arguments, directory=tmp_path)
    assert answer.returncode in (1, 2)
    assert expected in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_log_has_what_java_says_when_it_cannot_start(bootstrap: str, tmp_path: Path) -> None:
    lines, log = make_topic(bootstrap, "lines"), tmp_path / "spark.log"
    sets = ["--set", f"source={lines}", "--set", f"bootstrap_servers={bootstrap}"]
    known = {"SPARK_SUBMIT_OPTS": "-Xss1k", "PENSTOCK_SPARK_LOG": str(log)}
    answer = penstock("run", WORD_COUNT, *sets, directory=tmp_path, **known)
    assert answer.returncode == 1
    assert answer.stderr == f"Error: Spark's Java process did not start\nWhat Spark said is in {log}\n"
    assert answer.stdout == "starting Spark ...\n"
    assert "Could not create the Java Virtual Machine" in log.read_text()


def test_the_checkpoint_is_gone_when_a_pipeline_is_reset(bootstrap: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "ip-fraud"
    checkpoint.mkdir(parents=True)
    answer = penstock("reset", IP_FRAUD, "--yes", "--set", f"bootstrap_servers={bootstrap}", directory=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert f"deleted the checkpoint {checkpoint}" in answer.stdout
    assert "there was no group penstock-ip-fraud-counts" in answer.stdout
    assert not checkpoint.exists()
