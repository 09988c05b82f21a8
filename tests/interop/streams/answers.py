"""python -m tests.interop.streams.answers [CASE...]: writes what Kafka Streams answers, to all cases or some."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from penstock.testing.processes import BrokerProcess
from tests.interop.streams.case_files import ANSWERS, answers_text, load_cases
from tests.interop.streams.oracle import ask_application, ask_driver, compile_oracle


def main(names: list[str]) -> None:
    cases = [case for name, case in load_cases().items() if not names or name in names]
    with tempfile.TemporaryDirectory() as directory:
        classes = compile_oracle(Path(directory) / "classes")
        answers = dict(ask_driver(classes, [case for case in cases if case.judge == "driver"]))
        on_broker = [case for case in cases if case.judge == "broker"]
        if on_broker:
            with BrokerProcess(Path(directory) / "data", config={"node.id": "1"}) as broker:
                answers |= ask_application(classes, broker.bootstrap_servers, "answers", on_broker)
    ANSWERS.mkdir(exist_ok=True)
    for name, outputs in answers.items():
        (ANSWERS / f"{name}.json").write_text(answers_text(outputs))


if __name__ == "__main__":
    main(sys.argv[1:])
