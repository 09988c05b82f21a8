"""`make demo`: fraudulent addresses in a live stream of web-server logs, and the books that show that no line was lost.

A broker of our own, a feed of access-log lines, the job `penstock.pipelines.jobs.ip_fraud`, and at the end a look at
all that it wrote. Ends with status 1 when a line is missing anywhere, or there twice.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import NamedTuple


class Wishes(NamedTuple):
    directory: Path
    ranges: Path | None
    duration_s: float
    rate: int
    seed: int


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    try:
        wishes = parse_arguments(sys.argv[1:])
        # Both take seconds to import: whoever interrupts that gets the line below, and no traceback.
        from demo_run import Traffic
        from demo_show import run

        return run(wishes.directory, wishes.ranges, Traffic(wishes.duration_s, wishes.rate, wishes.seed))
    except KeyboardInterrupt:
        sys.stderr.write("Error: interrupted while Spark started\n")
        return 130


def parse_arguments(arguments: list[str]) -> Wishes:
    parser = argparse.ArgumentParser(prog="demo", description="Fraudulent addresses in a live stream of access logs.")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds of traffic; 0: until interrupted")
    parser.add_argument("--rate", type=int, default=2000, help="lines a second; 0: as many as possible")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same lines")
    parser.add_argument("--directory", type=Path, default=Path("demo-data"), help="emptied at the start")
    parser.add_argument("--ranges", type=Path, help="what is fraud: a file of first octets or CIDR blocks, one a line")
    given = parser.parse_args(arguments)
    if given.duration < 0 or given.rate < 0:
        parser.error("--duration and --rate are 0 or more")
    return Wishes(given.directory.resolve(), given.ranges, given.duration, given.rate, given.seed)


if __name__ == "__main__":
    sys.exit(main())
