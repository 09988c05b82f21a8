"""The number of records in a body, before any of them is made: millions of empty ones fit into a few megabytes.
Pure.
"""

from __future__ import annotations

import re

# Up to the next brace that is not in a string, or to the end.
_PLAIN = re.compile(rb'(?:[^"{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_BEGIN = ord("{")


def has_more_objects(body: bytes, most: int) -> bool:
    """Whether the outermost object has more than `most` objects in it, in any lists. Invalid JSON is left to the
    decoder.
    """
    position = depth = count = 0
    size = len(body)
    while True:
        found = _PLAIN.match(body, position)
        assert found is not None, "nothing at all is plain"
        position = found.end()
        if position >= size or depth < 0:
            return False
        if body[position] == _BEGIN:
            if depth == 1:
                count += 1
                if count > most:
                    return True
            depth += 1
        elif body[position] == 0x7D:
            depth -= 1
        else:  # a string that does not end
            return False
        position += 1
