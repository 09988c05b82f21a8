"""python -m penstock.proof.simulation --schedules 2000 --seed 1"""

from __future__ import annotations

import argparse
import random
import sys

from penstock.proof.simulation.run import run_schedules


def main() -> int:
    parser = argparse.ArgumentParser(description="Drive a broker in virtual time through many seeded schedules.")
    parser.add_argument("--schedules", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=None, help="of the first schedule; default: by chance, and printed")
    parser.add_argument("--processes", type=int, default=1, help="how many run schedules at the same time")
    parser.add_argument("--trace", action="store_true", help="print the trace of every schedule")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    report = run_schedules(
        seed,
        options.schedules,
        say=lambda text: print(text, flush=True),
        is_verbose=options.trace,
        processes=options.processes,
    )
    print(report)
    return 0 if report.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
