"""Record a history with real clients on a cluster that runs, and judge it; or judge a saved history.

    python -m penstock.testing.history --bootstrap HOST:PORT --seconds 20 --out history.jsonl
    python -m penstock.testing.history --check history.jsonl

The exit code is 0 when every promise was kept, 1 when one was not, and 2 when nothing could be judged.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from penstock.testing.history import write_history
from penstock.testing.history.run import HistoryRun, SavedReport, check_file, show_anomalies


def main(arguments: Sequence[str] | None = None) -> int:
    options = _make_parser().parse_args(arguments)
    try:
        return _judge_saved(options.check) if options.check else _record(options)
    except (KafkaException, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m penstock.testing.history",
        description="Record what real clients ask of a cluster and what they are told, and judge it.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker of the cluster; new topics are created there")
    what.add_argument("--check", type=Path, metavar="FILE", help="judge a saved history instead")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="N", help="how long (default: 20)")
    parser.add_argument("--seed", type=int, metavar="N", help="default: chosen by chance, and printed")
    parser.add_argument("--topics", type=int, default=2, metavar="N", help="how many to create (default: 2)")
    parser.add_argument("--partitions", type=int, default=2, metavar="N", help="of each topic (default: 2)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the history, one JSON object a line")
    return parser


def _judge_saved(path: Path) -> int:
    report = SavedReport(check_file(path))
    show_anomalies(report.history)
    print(report)
    return 0 if report.is_sound else 1


def _record(options: argparse.Namespace) -> int:
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    run = HistoryRun(options.bootstrap, options.seconds, seed, options.topics, options.partitions)
    report = run.run()
    saved: Path | None = options.out
    if saved is None and not report.is_sound:
        saved = Path(tempfile.mkdtemp(prefix="penstock-history-"), "history.jsonl")
        print(f"the history is kept in {saved}")
    if saved is not None:
        write_history(saved, run.operations, run.final)
    show_anomalies(report.history)
    print(report)
    return 0 if report.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
