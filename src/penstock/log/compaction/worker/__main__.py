"""`python -m penstock.log.compaction.worker PID`: cleans what the broker of that process id asks for, by stdin and
stdout. The broker starts it; nobody else does.
"""

from __future__ import annotations

import os
import sys

# What the kernel gives to a process that must not be in anybody's way.
_NICENESS = 19


def main() -> None:
    os.nice(_NICENESS)
    # Only now: what follows takes most of the start.
    from penstock.log.compaction.worker.serving import Owner, OwnerGoneError, serve

    owner = Owner(sys.stdin.fileno(), sys.stdout.fileno(), int(sys.argv[1]))
    try:
        serve(owner)
    except OwnerGoneError:
        # At once, and with no file removed: the broker that starts next may have begun to use the directory.
        os._exit(0)


if __name__ == "__main__":
    main()
