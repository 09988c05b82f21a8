"""Names that no host can have: a part is empty (`kafka..example`), or longer than 63 bytes.

Python does not look such a name up, and says so with UnicodeError. That is no OSError, so one mistyped broker in a list
kept clients from the others, and commands and servers ended with a traceback.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


def can_be_known(host: str) -> bool:
    """For a library that looks names up itself, and ends with UnicodeError at such a name."""
    try:
        host.encode("idna")  # as `socket.getaddrinfo` does
    except UnicodeError:
        return False
    return True


@contextlib.contextmanager
def failing_as_unknown() -> Iterator[None]:
    """Around what looks a name up: such a name fails like any other that nobody knows, with `socket.gaierror`."""
    try:
        yield
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
