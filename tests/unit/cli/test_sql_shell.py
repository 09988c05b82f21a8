"""The shell: what Enter does, what is completed, and what Ctrl-C ends."""

from __future__ import annotations

import os
import queue
import signal
import threading
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from penstock.cli.commands.sql.completion import KEYWORDS, Names, SqlCompleter, candidates, tables_in
from penstock.cli.commands.sql.engine import Engine
from penstock.cli.commands.sql.engine_start import Starting
from penstock.cli.commands.sql.row_printer import Printed
from penstock.cli.commands.sql.shell import expand_command, history_file, is_ready
from penstock.cli.commands.sql.statements import Showing, run_all
from penstock.cli.errors import CliError
from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.runtime.spark.interruptible_task import CancelledError, run_interruptibly
from penstock.pipelines.sql.answers import Rows, SqlAnswer
from penstock.pipelines.sql.rows import TableRows
from penstock.pipelines.sql.statements import is_complete

TOPICS = ["orders", "order-lines", "people"]
COLUMNS = {"orders": ["order_id", "price", "_offset"], "order-lines": ["line no"]}


class FakeEngine:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cancelled = threading.Event()

    def run(self, text: str) -> SqlAnswer:
        self.asked.append(text)
        if text == "wrong":
            raise SqlError("there is no column x", "There is a column y.")
        if text == "slow":
            self.cancelled.wait(30)
            raise SqlError("cancelled")
        rows = TableRows({"a": ["x"]}) if text == "skipping" else None
        return SqlAnswer(rows, text=f"answer to {text}", notices=("a notice",))

    def cancel(self) -> None:
        self.cancelled.set()

    def trouble(self) -> str:
        return "no broker answers"

    def late_notices(self) -> tuple[str, ...]:
        return ("2 rows were skipped",) if self.asked[-1] == "skipping" else ()

    def warm_up(self) -> None:
        pass


def count_rows(rows: Rows) -> Printed:
    return Printed(rows.head(10).num_rows)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("SELECT * FROM ord", ["orders", "`order-lines`", "orders$latest", "`order-lines$latest`"]),
        ("SELECT * FROM `order-", ["`order-lines`", "`order-lines$latest`"]),
        ("DESCRIBE p", ["people", "people$latest"]),
        ("SELECT * FROM orders WHERE pr", ["price"]),
        ("SELECT * FROM `order-lines` WHERE li", ["`line no`", "LIMIT", "LIKE"]),
        ("SELECT * FROM orders$latest WHERE _o", ["_offset"]),
        ("sele", ["SELECT"]),
        ("SELECT nothing_like_it", []),
    ],
)
def test_completion_offers_what_may_stand_there(before: str, expected: list[str]) -> None:
    offered = candidates(before, before, TOPICS, COLUMNS)
    assert sorted(offered) == sorted(quoted_latest(name) for name in expected)


def quoted_latest(name: str) -> str:
    return f"`{name}`" if name.endswith("$latest") and "`" not in name else name


def test_columns_of_tables_are_offered_first_when_nothing_is_typed() -> None:
    text = "SELECT  FROM orders"
    assert candidates(text, "SELECT ", TOPICS, COLUMNS) == COLUMNS["orders"]
    assert tables_in("select * from `a-b` join c$latest on 1 = 1") == ["a-b", "c$latest"]


def test_completion_does_not_wait_when_names_are_slow() -> None:
    asked, answered = queue.SimpleQueue[None](), threading.Event()

    def names() -> list[str]:
        asked.put(None)
        answered.wait(10)
        return TOPICS

    known = Names(names, lambda table: COLUMNS[table])
    known.start()
    completer = SqlCompleter(known)

    def offered(text: str) -> list[str]:
        return [each.text for each in completer.get_completions(Document(text), CompleteEvent())]

    assert offered("SELECT * FROM peo") == []
    assert offered("SEL") == ["SELECT"]
    answered.set()
    for _ in range(3):  # at first the names are missing, then the columns; what was asked for before a refresh is known
        asked.get(timeout=10)
        offered("SELECT * FROM orders WHERE pr")
        known.refresh()
    assert offered("SELECT * FROM orders WHERE pr") == ["price"]


def test_keywords_are_offered_once() -> None:
    assert len(KEYWORDS) == len(set(KEYWORDS))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", False),
        ("select 1;", True),
        ("select ';", False),
        ("", True),
        ("\\q", True),
        ("exit", True),
        ("help;", True),
    ],
)
def test_enter_runs_the_text_when_it_is_whole(text: str, expected: bool) -> None:
    assert is_ready(text, is_complete) is expected


def test_short_commands_stand_for_statements() -> None:
    assert expand_command("\\d") == "SHOW TABLES"
    assert expand_command("\\d order-lines;") == "DESCRIBE order-lines"
    assert expand_command("SELECT 1;") == "SELECT 1;"


def test_history_is_where_xdg_says() -> None:
    assert history_file({"HOME": "/home/me"}) == Path("/home/me/.local/state/penstock/sql_history")
    assert history_file({"XDG_STATE_HOME": "/state"}) == Path("/state/penstock/sql_history")


def test_statements_end_at_the_first_error_when_they_are_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    engine = FakeEngine()
    with pytest.raises(CliError, match="no column x") as raised:
        run_all(engine, ["one", "skipping", "wrong", "two"], Showing(count_rows, has_timing=True))
    assert raised.value.hint == "There is a column y."
    assert engine.asked == ["one", "skipping", "wrong"]
    said = capsys.readouterr()
    assert said.out == "answer to one\nanswer to skipping\n"
    assert said.err.splitlines()[0] == "a notice"
    assert "2 rows were skipped" in said.err


def test_question_is_cancelled_when_ctrl_c_comes() -> None:
    engine = FakeEngine()
    interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(CancelledError):
        run_interruptibly(lambda: engine.run("slow"), engine.cancel)
    assert engine.cancelled.is_set()
    interrupt.join()


def test_question_is_cancelled_again_when_it_had_not_begun_yet() -> None:
    asked: list[str] = []
    ended = threading.Event()

    def cancel() -> None:
        asked.append("cancel")
        if len(asked) > 1:
            ended.set()

    interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(CancelledError):
        run_interruptibly(lambda: ended.wait(30), cancel)
    assert len(asked) == 2
    interrupt.join()


def test_error_of_the_start_is_told_when_the_engine_is_asked_for() -> None:
    def fail() -> Engine:
        raise PipelineError("there is no java", "Install it.")

    starting = Starting(fail)
    starting.start()
    with pytest.raises(CliError, match="no java"):
        starting.engine()
    assert starting.state() == ""
