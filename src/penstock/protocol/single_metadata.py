"""The metadata request that most metadata requests are: one topic, by its name, and nothing about permissions.

A parser of its own for one shape of one message, because clients ask it whenever something may have changed. Whatever
has another shape is left to the general codec, and a property test holds both to the same values.
"""

from __future__ import annotations

from penstock.protocol.message import Buffer

FIRST_VERSION = 10  # topics have ids from here on, zero where a name is given
_LAST_WITH_CLUSTER_OPERATIONS = 10

_ONE_NAMED = b"\x02" + bytes(16)  # a compact count of one, and no topic id
# The tags of the topic; whether a missing topic may be created, which does not matter for one that exists; no
# operations of the cluster (version 10 alone), no operations of the topic; the tags of the request.
_TAILS = (b"\0\0\0\0", b"\0\1\0\0")
_TAILS_OF_VERSION_10 = (b"\0\0\0\0\0", b"\0\1\0\0\0")


def parse_single_metadata(frame: Buffer, version: int, position: int) -> str | None:
    """The name in the body that begins at `position`. None for any other shape, and for anything odd: the general
    decoder finds the words for that.
    """
    if version < FIRST_VERSION:
        return None
    start = position + len(_ONE_NAMED) + 1
    try:
        size = frame[start - 1]
        if not 1 < size < 128 or frame[position : start - 1] != _ONE_NAMED:
            return None
        end = start + size - 1
        if frame[end:] not in (_TAILS_OF_VERSION_10 if version == _LAST_WITH_CLUSTER_OPERATIONS else _TAILS):
            return None
        return str(frame[start:end], "utf-8")
    except (IndexError, ValueError):
        return None
