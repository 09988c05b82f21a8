"""python -m tests.interop.streams.answers [CASE...]: writes what the TopologyTestDriver answers, for all cases or some."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.interop.streams.case_files import ANSWERS, CASES, answers_text, case_paths
from tests.interop.streams.oracle import ask_oracle, compile_oracle


def main(names: list[str]) -> None:
    paths = [CASES / f"{name}.json" for name in names] or case_paths()
    with tempfile.TemporaryDirectory() as directory:
        answers = ask_oracle(compile_oracle(Path(directory)), "driver", *map(str, paths))
    ANSWERS.mkdir(exist_ok=True)
    for name, outputs in answers.items():
        (ANSWERS / f"{name}.json").write_text(answers_text(outputs))


if __name__ == "__main__":
    main(sys.argv[1:])
