"""While the broker serves, nothing that can block long is asked of the disk on its event loop.

The simulated disk is quick, so a schedule would never notice. The guard sees every file operation that is not the work
of a thread, and fails the schedule with the stack of one that a real disk may take long for (ADR 14). Starting and
stopping may block: nobody is served then.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable

from penstock.log.formats import names

# As `MemoryFiles` names them. A write to an open file or a read goes to the page cache; a rename of a file changes one
# directory. A new file or directory waits for the journal of the file system.
BLOCKING = frozenset({"unlink", "remove_tree", "truncate", "sync", "list", "make_directory", "create", "write_file"})
# The function that asked, and why it may. A failed write leaves a torn batch: cutting off that one batch is short work,
# and the partition goes offline with it.
ALLOWED = frozenset({("truncate", "append", "segment.py")})
# The same for all that a function calls.
_ROLL = ("create", "write_file", "unlink")
_TRUNCATION = ("truncate", "unlink", "write_file", "create", "rename", "sync")
_REPLACEMENT = ("rename", "sync", "make_directory", "write_file", "create")
ALLOWED_BELOW = frozenset(
    {
        # The append that finds a segment full goes into the next one, whose files it makes: four small files for each
        # gigabyte. Where the disk is full in between, the files that are made already, which are empty, go again.
        *((name, "roll", "contents.py") for name in _ROLL),
        # A follower cuts off what its leader does not have. That comes after an election, and mostly is one batch; a
        # thread removes whole segments. Not good, because an election may concern thousands of partitions at once.
        *((name, "truncate_to", "partition_log.py") for name in _TRUNCATION),
        # One image deletes a topic and makes it anew, for a broker that was behind: the directory of the new one cannot
        # be made before that of the old one is renamed.
        *((name, "create", "log_directories.py") for name in _REPLACEMENT),
    }
)
_SHOWN_FRAMES = 8
_OWN_FRAMES = ("/loop_guard.py", "/simulation/machine.py", "/disks/memory.py", "/storage/files.py")


class LoopGuard:
    def __init__(self, fail: Callable[[str], None]) -> None:
        self._fail = fail
        self._told: set[str] = set()

    def look(self, name: str, path: str) -> None:
        """An operation on the loop while clients are served. Each place is told once."""
        is_directory_renamed = name == "rename" and path.endswith(names.DELETE_DIRECTORY)
        if name not in BLOCKING and not is_directory_renamed:
            return
        frames = [
            (frame.f_code.co_name, frame.f_code.co_filename.rpartition("/")[2], lineno)
            for frame, lineno in traceback.walk_stack(None)
            if not frame.f_code.co_filename.endswith(_OWN_FRAMES)
        ]
        if (name, *frames[0][:2]) in ALLOWED or any((name, *frame[:2]) in ALLOWED_BELOW for frame in frames):
            return
        stack = " < ".join(f"{function} ({file}:{line})" for function, file, line in frames[:_SHOWN_FRAMES])
        if stack not in self._told:
            self._told.add(stack)
            self._fail(f"{name} of {path} on the event loop: {stack}")
