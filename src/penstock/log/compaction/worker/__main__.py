"""`python -m penstock.log.compaction.worker PID`: cleans what the broker of that process id asks for, by stdin and
stdout. The broker starts it; nobody else does.
"""

from __future__ import annotations

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
    """After the start, which is short and would take long on a busy machine. Not `SCHED_IDLE`: it cost producers less,
    but where all processors are busy such a process hardly gets on, and takes seconds even to end when it is killed.
    """
    os.nice(_NICENESS)


if __name__ == "__main__":
    main()
