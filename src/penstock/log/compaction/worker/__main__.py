"""`python -m penstock.log.compaction.worker PID`: cleans at the request of the broker of that process id, by stdin and
stdout. Only the broker starts it.
"""

from __future__ import annotations

import os
import sys

from penstock.log.compaction.worker.worker_process import Owner, OwnerGoneError, serve

_NICENESS = 19


def main() -> None:
    _step_back()
    owner = Owner(sys.stdin.fileno(), sys.stdout.fileno(), int(sys.argv[1]))
    try:
        serve(owner)
    except OwnerGoneError:
        # At once, and without the removal of a file: the next broker may have begun to use the directory.
        os._exit(0)


def _step_back() -> None:
    """Lowers the priority after the start, which is short and would take long on a busy machine. Not `SCHED_IDLE`: it
    cost producers less, but where all processors are busy such a process hardly makes progress, and takes seconds even
    to end when it is killed.
    """
    os.nice(_NICENESS)


if __name__ == "__main__":
    main()
