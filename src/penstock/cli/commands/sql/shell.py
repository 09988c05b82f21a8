"""The interactive shell: statements that end in `;`, with history and completion.

The prompt is there at once. Spark starts behind it, and the first statement waits for what is left of that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import output
from penstock.cli.commands.sql.engine import Known
from penstock.cli.commands.sql.preflight import read_statements
from penstock.cli.commands.sql.statements import Showing, run_statement
from penstock.cli.errors import CliError, report
from penstock.pipelines.runtime.spark.interruptible_task import CancelledError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings

    from penstock.cli.commands.sql.engine_start import Starting

_PROMPT = "sql> "
_LEAVING = frozenset({"\\q", "quit", "exit"})
_HELPING = frozenset({"\\?", "\\h", "help"})
HELP = """\
Statements end in ; and may have several lines.
  SHOW TABLES;                     the topics and views
  DESCRIBE orders;                 the columns of a topic, and where they come from
  SELECT * FROM orders LIMIT 10;   every record; _key, _headers, _partition, _offset, _timestamp are columns too
  SELECT * FROM `orders$latest`;   the latest record of each key
  EXPLAIN SELECT ...;              what would be read
  CREATE VIEW name AS SELECT ...;  kept for the next time
  INSERT INTO topic SELECT ...;    each row once
  \\d  \\d topic  \\q                 SHOW TABLES, DESCRIBE topic, leave (as does Ctrl-D)
Ctrl-C ends the question that runs, or clears the line. Tab completes topics and columns."""


def history_file(environment: dict[str, str] | os._Environ[str] = os.environ) -> Path:
    base = environment.get("XDG_STATE_HOME") or os.path.join(environment.get("HOME", "~"), ".local", "state")
    return Path(base).expanduser() / "penstock" / "sql_history"


def expand_command(text: str) -> str:
    """The statement that a short command of the shell stands for."""
    command, _, name = text.strip().rstrip(";").partition(" ")
    if command == "\\d":
        return f"DESCRIBE {name.strip()}" if name.strip() else "SHOW TABLES"
    return text


def is_ready(text: str, is_complete: Callable[[str], bool]) -> bool:
    """Whether Enter runs the text, or begins another line of it."""
    stripped = text.strip()
    first = stripped.rstrip(";").strip().lower()
    return not stripped or stripped.startswith("\\") or first in _LEAVING | _HELPING or is_complete(text)


class Shell:
    def __init__(self, starting: Starting, known: Known, showing: Showing) -> None:
        self._starting = starting
        self._known = known
        self._showing = showing

    def run(self) -> None:
        from penstock.cli.commands.sql.completion import Names, SqlCompleter

        names = Names(self._known.names, self._known.columns)
        session = _open_session(SqlCompleter(names), self._starting.state)
        names.start()
        output.note("Statements end in ;   help shows more   Ctrl-D leaves")
        while True:
            try:
                text = session.prompt(_PROMPT)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            word = text.strip().rstrip(";").strip().lower()
            if word in _LEAVING:
                return
            if word in _HELPING:
                output.say(HELP)
            elif word:
                self._run(expand_command(text))
                names.refresh()

    def _run(self, text: str) -> None:
        try:
            statements = read_statements(text, is_explained=False)
            engine = self._starting.engine()
            for statement in statements:
                run_statement(engine, statement, self._showing)
        except (CancelledError, KeyboardInterrupt):
            output.note("Cancelled.")
        except CliError as error:
            report(error)


def _open_session(completer: object, state: Callable[[], str]) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]  # rich brings it

    assert isinstance(completer, Completer)
    return PromptSession(
        completer=completer,
        complete_in_thread=True,
        complete_while_typing=False,
        history=_open_history(history_file()),
        key_bindings=_bindings(),
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        prompt_continuation="  -> ",
        rprompt=state,
        refresh_interval=0.5,
    )


def _open_history(file: Path) -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError as error:
        output.note(f"No history: {file}: {error.strerror}")
        return InMemoryHistory()
    return FileHistory(str(file))


def _bindings() -> KeyBindings:
    from prompt_toolkit.filters import completion_is_selected
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from penstock.pipelines.sql.statements import is_complete

    bindings = KeyBindings()

    @bindings.add("enter", filter=~completion_is_selected)
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_ready(buffer.text, is_complete):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @bindings.add("enter", filter=completion_is_selected)
    def accept(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return bindings
