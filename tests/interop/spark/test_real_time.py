"""Applications in Spark's real-time mode: by the command line, on Apache Kafka and on Penstock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.testing.processes import ServerProcess
from spark_connector.jars import fetch_connector_jars
from tests.clients.confluent import produce, producer_of
from tests.interop.conftest import MakeTopic
from tests.pipelines.committed import read_committed

pytestmark = pytest.mark.timeout(600)
PATIENCE_S = 240.0
APPLICATION = """
from penstock.streams import Streams, json

app = Streams("{topic}", dead_letters="{topic}-dead")
clicks = app.stream("{topic}", value=json("user string, url string"))
counted = clicks.filter("url <> '/ignored'").group_by("user").count()
counted.to_stream().group_by(times="count").count(into="users").to("{topic}-out")
"""


def values_of(broker: ServerProcess, topic: str) -> list[dict[str, object]]:
    return [json.loads(message.value() or b"null") for message in read_committed(broker.bootstrap_servers, topic)]


def test_results_and_dead_letters_come_when_an_application_runs_in_real_time(
    broker: ServerProcess, make_topic: MakeTopic, topic: str, tmp_path: Path
) -> None:
    """Two counts with a topic between, and the dead letters: three queries, each one task that reads."""
    make_topic(topic, 1)
    (tmp_path / "app.py").write_text(APPLICATION.format(topic=topic))
    settings = {
        "bootstrap_servers": broker.bootstrap_servers,
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": "realtime 5 seconds",
        "engine": "jvm",
        "parallelism": "1",
        "publish_runs": "false",
        "spark.jars": ",".join(map(str, fetch_connector_jars())),
    }
    given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "penstock", "streams", "run", str(tmp_path / "app.py"), *given]
    few = subprocess.run(
        [*command, "--master", "local[4]"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert few.returncode != 0
    assert "5 tasks at once" in few.stderr, few.stderr

    clicks = [{"user": user, "url": "/"} for user in ("ann", "bob", "ann")] + [{"user": "ann", "url": "/ignored"}]
    records = [json.dumps(click).encode() for click in clicks]
    log = (tmp_path / "log").open("w+")
    with subprocess.Popen([*command, "--master", "local[5]"], stdout=log, stderr=log, env=os.environ) as process:
        try:
            produce(producer_of(broker.bootstrap_servers), topic, [*records, b"{"])
            deadline = time.monotonic() + PATIENCE_S
            while len(values_of(broker, f"{topic}-out")) < 3 or not read_committed(
                broker.bootstrap_servers, f"{topic}-dead"
            ):
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.5)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            log.close()
    said = (tmp_path / "log").read_text()
    assert "at least once" in said, said
    assert " ERROR " not in said, said
    results = [(value["times"], value["users"]) for value in values_of(broker, f"{topic}-out")]
    assert results[:3] == [(1, 1), (1, 2), (2, 1)]
    (letter, *_) = read_committed(broker.bootstrap_servers, f"{topic}-dead")
    assert letter.value() == b"{"
