"""Names that a caller gives."""

from __future__ import annotations

from collections.abc import Iterable


def list_names(names: Iterable[str]) -> list[str]:
    """TypeError for one text, which Python and its type checkers take for a list of letters: `delete_topics("abc")`
    would delete the topics a, b and c.
    """
    if isinstance(names, str):
        raise TypeError(f"a list of names is wanted, such as [{names!r}], and not {names!r}")
    return list(names)


def list_names_if_any(names: Iterable[str] | None) -> list[str] | None:
    """None is all."""
    return None if names is None else list_names(names)
