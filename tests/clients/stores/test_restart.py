"""`penstock streams serve` as a process: killed, started again, beside another one; and compaction under it."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from penstock.testing.processes import BrokerProcess, ServerProcess, find_free_port
from tests.clients.cli_runner import Cli
from tests.clients.conftest import RunningBroker
from tests.clients.stores.talking import Changelogs, Stores
from tests.clients.support import PATIENCE_S, eventually


class StoresProcess(ServerProcess):
    """Ready when its port is open."""

    def __init__(self, changelogs: Changelogs, directory: Path, name: str = "stores") -> None:
        port = find_free_port()
        super().__init__(
            "penstock streams serve",
            [
                *(sys.executable, "-m", "penstock.cli.main", "streams", "serve", changelogs.application),
                *("--listen", f"127.0.0.1:{port}", "--bootstrap-servers", changelogs.bootstrap_servers),
                *("--data", str(directory / name), "--set", "penstock.streams.listing.interval.ms=200"),
            ],
            port=port,
            log_path=directory / f"{name}.log",
        )

    @property
    def stores(self) -> Stores:
        return Stores(f"http://127.0.0.1:{self.port}")

    def has_rows(self) -> bool:
        return bool(self.stores.get("/stores/counts").json.get("rows", 0) > 100)


def test_nothing_is_lost_or_doubled_when_the_server_is_killed_while_it_reads(
    broker: RunningBroker, tmp_path: Path
) -> None:
    changelogs = Changelogs(broker.bootstrap_servers)
    changelogs.create("counts", partitions=4)
    is_over = threading.Event()
    expected: dict[str, int] = {}

    def write() -> None:
        turn = 0
        while not is_over.is_set():
            turn += 1
            rows = {f"k{number % 997:03d}": turn for number in range(turn * 311, turn * 311 + 400)}
            gone = {f"k{turn * 31 % 997:03d}": None}
            changelogs.write("counts", rows | gone)
            expected.update(rows)
            for key in gone:
                expected.pop(key, None)

    writing = threading.Thread(target=write)
    writing.start()
    process = StoresProcess(changelogs, tmp_path)
    try:
        for _ in range(2):
            process.start()
            eventually(process.has_rows, "rows are read")
            process.kill()
        is_over.set()
        writing.join()
        process.start()
        stores = process.stores
        stores.until("/stores/counts", lag=0, state="ready", rows=len(expected))
        found = stores.get("/stores/counts/keys?limit=10000").json["rows"]
        assert {row["key"]: row["value"] for row in found} == expected
    finally:
        is_over.set()
        writing.join()
        process.terminate()


def test_servers_answer_alike_and_share_no_directory_when_several_run(broker: RunningBroker, tmp_path: Path) -> None:
    changelogs = Changelogs(broker.bootstrap_servers)
    changelogs.create("counts")
    changelogs.write("counts", {"a": 1})
    with StoresProcess(changelogs, tmp_path, "one") as one, StoresProcess(changelogs, tmp_path, "two") as two:
        rows = [each.stores.until("/stores/counts", rows=1, state="ready") for each in (one, two)]
        assert rows[0]["position"] == rows[1]["position"] == {"0": 1}
        same = ["--listen", "127.0.0.1:0", "-b", broker.bootstrap_servers, "--data", str(tmp_path / "one")]
        with Cli(broker.bootstrap_servers).running("streams", "serve", changelogs.application, *same) as third:
            _, error = third.communicate(timeout=PATIENCE_S)
        assert (third.returncode, b"directory of its own" in error) == (1, True)


def test_the_last_values_are_there_when_the_changelog_was_compacted(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker", config={"log.cleaner.backoff.ms": "50"}) as process:
        changelogs = Changelogs(process.bootstrap_servers)
        changelogs.create(
            "counts", min_cleanable_dirty_ratio="0.01", segment_bytes=str(1 << 20), delete_retention_ms="0"
        )
        for turn in range(40):
            changelogs.write("counts", {f"k{number}": f"{turn} {'x' * 2_000}" for number in range(50)})
            changelogs.write("counts", {"k3": None})
        log = next((tmp_path / "broker").rglob(f"{changelogs.topic('counts')}-0"))
        eventually(lambda: _size(log) < 2_000_000, "the changelog is compacted")
        with StoresProcess(changelogs, tmp_path) as serving:
            serving.stores.until("/stores/counts", rows=49, lag=0, state="ready")
            found = serving.stores.get("/stores/counts/keys?limit=100").json["rows"]
            assert {row["value"].partition(" ")[0] for row in found} == {"39"}
            process.kill()  # answers outlive the brokers
            assert serving.stores.get("/stores/counts/keys/k7").status == 200
            assert serving.stores.get("/health").status == 200
            process.start()
            changelogs.write("counts", {"k3": "again"})
            serving.stores.until("/stores/counts", rows=50, lag=0)


def _size(log: Path) -> int:
    return sum(each.stat().st_size for each in log.glob("*.log") if each.exists())


def test_the_command_line_is_answered_when_it_asks_a_server_or_the_changelog(
    broker: RunningBroker, tmp_path: Path
) -> None:
    changelogs = Changelogs(broker.bootstrap_servers)
    changelogs.create("counts")
    changelogs.write("counts", {"DE": {"n": 1}, "FR": {"n": 2}})
    changelogs.create("windows")
    changelogs.write("windows", {json.dumps({"key": 7, "start": 0, "end": 60_000}): {"n": 4}})
    with StoresProcess(changelogs, tmp_path) as serving:
        serving.stores.until("/stores/counts", rows=2, state="ready")
        for where in (["--url", serving.stores.url], ["-b", broker.bootstrap_servers]):
            _ask(Cli(broker.bootstrap_servers), changelogs.application, where)


def test_an_unknown_application_is_a_failure_when_its_stores_are_asked_for(broker: RunningBroker) -> None:
    cli = Cli(broker.bootstrap_servers)
    stores = cli.try_run("streams", "query", "nobodys-application", "-b", broker.bootstrap_servers)
    assert (stores.code, stores.out) == (1, b"")
    assert stores.err.startswith("Error: the application nobodys-application has no stores\nA store is there once")
    store = cli.try_run("streams", "query", "nobodys-application", "counts", "-b", broker.bootstrap_servers)
    assert (store.code, store.out) == (1, b"")
    assert store.err.startswith("Error: the application nobodys-application has no store counts\n")


def _ask(cli: Cli, name: str, where: list[str]) -> None:
    def ask(*arguments: str) -> str:
        return cli.run("streams", "query", name, *arguments, *where).text

    assert json.loads(ask("counts", "DE", "--json"))["value"] == {"n": 1}
    assert 'FR   {"n":2}' in ask("counts", "--from", "E")
    assert "1970-01-01T00:01:00.000Z" in ask("windows", "7", "--windows", "--to", "0")
    assert f"{name}-windows-changelog" in ask()

    def refused(*arguments: str) -> tuple[int, str]:
        answer = cli.try_run("streams", "query", *arguments, *where)
        return answer.code, answer.err

    assert refused(name, "counts", "XX") == (
        1,
        "Error: the store counts has no key XX\nWithout a key the command lists rows.\n",
    )
    listed = "`penstock streams query APP` lists the stores; a store is there once the application has run.\n"
    for question in (["DE"], [], ["DE", "--windows"]):
        assert refused(name, "contus", *question) == (1, f"Error: the application {name} has no store contus\n{listed}")
