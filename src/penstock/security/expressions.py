"""Regular expressions of the operator that are tried on names of clients: Python's matcher backtracks, and a repetition
or a choice inside a repetition can take years for forty characters.
"""

from __future__ import annotations

import re

_REPETITION = re.compile(r"[*+]|\{\d+,")


def repeats_much(pattern: str) -> bool:
    """Whether a group with a repetition or a choice in it is repeated."""
    groups: list[bool] = [False]  # whether the groups that are open, the outermost first, contain such a thing
    position, is_closed_group = 0, False
    while position < len(pattern):
        character = pattern[position]
        repetition = _REPETITION.match(pattern, position)
        if repetition is not None:
            if is_closed_group:
                return True
            groups[-1] = True
            position = repetition.end()
            continue
        is_closed_group = False
        if character == "\\":
            position += 2
            continue
        if character == "[":
            position = _end_of_set(pattern, position)
            continue
        if character == "(":
            groups.append(False)
        elif character == "|":
            groups[-1] = True
        elif character == ")" and len(groups) > 1:
            is_closed_group = groups.pop()
            groups[-1] |= is_closed_group
        position += 1
    return False


def _end_of_set(pattern: str, start: int) -> int:
    position = start + 1
    while position < len(pattern) and (pattern[position] != "]" or position == start + 1):
        position += 2 if pattern[position] == "\\" else 1
    return position + 1
