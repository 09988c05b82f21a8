"""Event loops: uvloop where there is one, the standard library's elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os

_STANDARD_DESCRIPTORS = (0, 1, 2)


def new_event_loop() -> asyncio.AbstractEventLoop:
    _occupy_standard_descriptors()
    try:
        import uvloop
    except ImportError:  # not built for this platform
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _occupy_standard_descriptors() -> None:
    """A process that was started with one of them closed would give its number to a file or a socket of ours. libuv
    aborts the process when it is to close such a number.
    """
    for descriptor in _STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
