"""What DuckDB answers, asked in a process of its own: its library reports leaks when a process ends that ran pytest.

python duckdb_answers.py < QUESTIONS > ANSWERS, both pickled: Arrow's tables by name, statements and questions, and the
rows that each question has.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

TIMEOUT_S = 120.0


def ask_duckdb(
    tables: Mapping[str, pa.Table], statements: Sequence[str], questions: Mapping[str, str]
) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each question, by its name."""
    asked = pickle.dumps((dict(tables), list(statements), dict(questions)))
    command = [sys.executable, str(Path(__file__))]
    done = subprocess.run(command, input=asked, stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    answers: dict[str, list[tuple[Any, ...]]] = pickle.loads(done.stdout)
    return answers


def main() -> None:
    import duckdb

    tables, statements, questions = pickle.load(sys.stdin.buffer)
    with duckdb.connect() as duck:
        for name, table in tables.items():
            duck.register(name, table)
        for statement in statements:
            duck.execute(statement)
        answers = {name: duck.execute(question).fetchall() for name, question in questions.items()}
    sys.stdout.buffer.write(pickle.dumps(answers))


if __name__ == "__main__":
    main()
