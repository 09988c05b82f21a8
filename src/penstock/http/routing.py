"""Finds the row of the table for the path of a request: a tree of segments.

Rules:
- The raw path is cut at its slashes, and each segment is decoded once afterwards. So a name may hold a slash as `%2F`,
  and a name that was encoded twice is still encoded once.
- A segment is a word of the table or the value of `{name}`; `{name:path}` at the end takes the rest. A word has
  precedence over a value. An empty segment, `.` and `..`, in any encoding, are neither: other servers may have resolved
  them before, or will. One slash at the end has no meaning.
- A path that cannot be decoded has no page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from penstock.http.routes import Route

_DOTS = frozenset((".", ".."))
_TAIL = ":path"


class Matched(NamedTuple):
    """`route` is None where the page exists without the method: `allowed` has its methods."""

    route: Route | None
    parameters: dict[str, str]
    allowed: tuple[str, ...] = ()


class _Leaf(NamedTuple):
    route: Route
    names: tuple[str, ...]


class _Node:
    __slots__ = ("leaves", "tails", "value", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node] = {}
        self.value: _Node | None = None
        self.leaves: dict[str, _Leaf] = {}  # by method
        self.tails: dict[str, _Leaf] = {}


class Routing:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        assert route.path.startswith("/"), route.path
        node, names, is_tail = self._root, list[str](), False
        for part in _cut(route.path):
            assert not is_tail, "the rest of a path ends it"
            if not part.startswith("{"):
                node = node.words.setdefault(part, _Node())
                continue
            name = part.removeprefix("{").removesuffix("}")
            is_tail = name.endswith(_TAIL)
            names.append(name.removesuffix(_TAIL))
            if not is_tail:
                node.value = node.value or _Node()
                node = node.value
        leaves = node.tails if is_tail else node.leaves
        methods = (*route.methods, "HEAD") if "GET" in route.methods else route.methods
        for method in methods:
            assert method not in leaves, f"{method} {route.path} stands in the table twice"
            leaves[method] = _Leaf(route, tuple(names))

    def match(self, method: str, raw_path: bytes) -> Matched | None:
        """Costs 1.5 us for a path of three segments, however many routes there are: 60 rows of regular expressions, as
        Starlette has them, take 30 us.
        """
        try:
            path = raw_path.decode("ascii")
            if not path.startswith("/"):
                return None
            parts = _cut(path)
            if "%" in path:
                parts = [unquote_to_bytes(part).decode() if "%" in part else part for part in parts]
        except UnicodeDecodeError:
            return None
        if not _DOTS.isdisjoint(parts) or "" in parts:
            return None
        return self._find_straight(method, parts) or self._find(method, parts)

    def _find_straight(self, method: str, parts: list[str]) -> Matched | None:
        """The first path that `_walk` tries, without backtracking. It is right for nearly all requests."""
        node, values = self._root, []
        for part in parts:
            following = node.words.get(part)
            if following is None:
                following = node.value
                if following is None:
                    return None
                values.append(part)
            node = following
        leaf = node.leaves.get(method)
        return None if leaf is None else Matched(leaf.route, dict(zip(leaf.names, values, strict=True)))

    def _find(self, method: str, parts: list[str]) -> Matched | None:
        allowed: dict[str, None] = {}
        for leaves, values in _walk(self._root, parts, 0, []):
            leaf = leaves.get(method)
            if leaf is not None:
                return Matched(leaf.route, dict(zip(leaf.names, values, strict=True)))
            allowed |= dict.fromkeys(leaves)
        return Matched(None, {}, tuple(allowed)) if allowed else None


def _cut(path: str) -> list[str]:
    """Without the leading slash, and without a trailing one."""
    parts = path.split("/")
    del parts[0]
    if parts[-1] == "":
        del parts[-1]
    return parts


def _walk(
    node: _Node, parts: list[str], depth: int, values: list[str]
) -> Iterator[tuple[Mapping[str, _Leaf], list[str]]]:
    """The pages that the path may mean, those with more words of the table first."""
    if depth == len(parts):
        if node.leaves:
            yield node.leaves, values
        return
    part = parts[depth]
    word = node.words.get(part)
    if word is not None:
        yield from _walk(word, parts, depth + 1, values)
    if node.value is not None:
        yield from _walk(node.value, parts, depth + 1, [*values, part])
    if node.tails:
        yield node.tails, [*values, "/".join(parts[depth:])]
