"""`python -m penstock.log.compaction.worker PID`: cleans what the broker of that process id asks for, by stdin and
stdout. The broker starts it; nobody else does.
"""

from __future__ import annotations

import contextlib
import os
import sys

from penstock.log.compaction.worker.serving import Owner, OwnerGoneError, serve

_NICENESS = 19


def main() -> None:
    _step_back()
    owner = Owner(sys.stdin.fileno(), sys.stdout.fileno(), int(sys.argv[1]))
    try:
        serve(owner)
    except OwnerGoneError:
        # At once, and with no file removed: the broker that starts next may have begun to use the directory.
        os._exit(0)


def _step_back() -> None:
    """Only what others leave of the processors. Being nice is not enough where there is more: a nice process finishes
    its turn while the broker waits, and producers lost a quarter of their throughput; an idle one is interrupted at
    once. After the start, which is short and would take long on a busy machine.
    """
    os.nice(_NICENESS)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    main()
