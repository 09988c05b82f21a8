"""One run of the questions about topics as tables. The data is written once, to one broker of ours with a registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from apache_kafka.jars import PeerUnavailableError
from bench.contenders import PENSTOCK
from bench.errors import BenchError
from bench.gathering import Gathering
from bench.rows import Row
from bench.sql.driver import CONNECTOR, OURS, PARQUET, QUESTIONS, Spec
from bench.sql.first_rows import measure_command, measure_shell
from bench.sql.orders import write_day
from penstock.testing.processes import BrokerProcess, RegistryProcess, find_free_port
from spark_connector.jars import fetch_connector_jars

SQL_NAMES = ("sql", "sql-first-row")
BEGIN, END = "<!-- sql: begin -->", "<!-- sql: end -->"
PEER = "the other"
RECORDS, QUICK_RECORDS = 1_000_000, 50_000
DRIVER_TIMEOUT_S = 1800.0
_TITLES = {
    "count": "count with a filter on one field",
    "group": "sum of a field by another",
    "latest": "latest record of each key",
}
SQL_ROWS = (
    *(
        Row(f"{key}-{CONNECTOR}", f"{title}; beside: Spark's connector and fastavro", "1,000/s", ratio_at_least=3)
        for key, title in _TITLES.items()
    ),
    *(
        Row(f"{key}-{PARQUET}", f"{title}; beside: a Parquet copy", "s", decimals=2, ratio_at_most=3)
        for key, title in _TITLES.items()
    ),
    Row("hour", "bytes fetched for one hour of the day", "hours", decimals=2, value_at_most=1.2),
    Row("last-hour", "bytes fetched for the last hour of the day", "hours", decimals=2, value_at_most=1.2),
    Row("first-row", "shell: first row of the first question, once it is up", "s", decimals=2, value_at_most=1),
    Row("second-row", "shell: first row of the same question again", "s", decimals=2, value_at_most=1),
    Row("third-row", "shell: first row of a question about five offsets", "s", decimals=2, value_at_most=1),
    Row("prompt", "shell: start until the prompt", "s", decimals=2),
    Row("shell-up", "shell: start until Spark is there", "s", decimals=2),
    Row("command-row", "command with one question: start until the first row", "s", decimals=2),
)


class SqlRun:
    """Figures gather in `result`."""

    def __init__(self, count: int, rounds: int, directory: Path) -> None:
        self.count = count
        self.rounds = rounds
        self.directory = directory / "sql"
        self.result = Gathering((PENSTOCK.name, PEER), SQL_ROWS, "Topics as tables", (BEGIN, END), PEER)

    def measure(self, names: Sequence[str]) -> None:
        self.result.begin()
        self.directory.mkdir()
        metrics = f"127.0.0.1:{find_free_port()}"
        with (
            BrokerProcess(self.directory / "data", config={"penstock.metrics.listen": metrics}) as broker,
            RegistryProcess(broker.bootstrap_servers, self.directory / "registry.log") as registry,
        ):
            parquet = self.directory / "parquet"
            day = write_day(broker.bootstrap_servers, registry.url, parquet, self.count)
            place = broker.bootstrap_servers, registry.url
            if "sql" in names:
                self._ask(Spec(*place, metrics, str(parquet), day.start_ms, self.rounds, _jars()))
            if "sql-first-row" in names:
                for number in range(self.rounds):
                    self.result.keep(PENSTOCK.name, measure_shell(*place, self.directory), number)
                    self.result.keep(PENSTOCK.name, measure_command(*place, self.directory), number)

    def _ask(self, spec: Spec) -> None:
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [sys.executable, "-m", "bench.sql.driver", spec.to_json()]
        with (self.directory / "driver.log").open("w+") as log:
            ended = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=log, text=True, timeout=DRIVER_TIMEOUT_S, env=environment
            )
            if ended.returncode != 0:
                log.seek(0)
                raise BenchError(f"the driver of the questions failed:\n{log.read()[-3000:]}")
        said = [json.loads(line) for line in ended.stdout.splitlines()]
        self.result.keep(PENSTOCK.name, said[0]["hours"])
        for number, each in enumerate(said[1:]):
            self._keep(each["seconds"], number)

    def _keep(self, seconds: dict[str, dict[str, float]], number: int) -> None:
        for peer, unit in ((CONNECTOR, self._rate), (PARQUET, float)):
            for name, contender in ((PENSTOCK.name, OURS), (PEER, peer)):
                if peer in seconds:
                    figures = {f"{question}-{peer}": unit(seconds[contender][question]) for question in QUESTIONS}
                    self.result.keep(name, figures, number)

    def _rate(self, seconds: float) -> float:
        return self.count / seconds / 1000


def _jars() -> tuple[str, ...]:
    try:
        return tuple(map(str, fetch_connector_jars()))
    except PeerUnavailableError as error:
        print(f"bench: no comparison with Spark's own connector: {error}", file=sys.stderr)
        return ()
