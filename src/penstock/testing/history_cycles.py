"""Circles in a directed graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping


def find_cycles(edges: Mapping[int, Collection[int]]) -> list[list[int]]:
    """The nodes of each strongly connected component of more than one, sorted (Tarjan's algorithm without recursion:
    a history's chains are longer than Python's stack). An edge from a node to itself is not looked for.
    """
    cycles: list[list[int]] = []
    index: dict[int, int] = {}  # in the order of discovery
    lowest: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    for root in edges:
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = []
        _enter(root, edges, index, lowest, path, on_path, work)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    _enter(successor, edges, index, lowest, path, on_path, work)
                    break
                if successor in on_path:
                    lowest[node] = min(lowest[node], index[successor])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == index[node]:
                    component = _leave(node, path, on_path)
                    if len(component) > 1:
                        cycles.append(sorted(component))
    return cycles


def _enter(
    node: int,
    edges: Mapping[int, Collection[int]],
    index: dict[int, int],
    lowest: dict[int, int],
    path: list[int],
    on_path: set[int],
    work: list[tuple[int, Iterator[int]]],
) -> None:
    index[node] = lowest[node] = len(index)
    path.append(node)
    on_path.add(node)
    work.append((node, iter(edges.get(node, ()))))


def _leave(node: int, path: list[int], on_path: set[int]) -> list[int]:
    component: list[int] = []
    while True:
        member = path.pop()
        on_path.discard(member)
        component.append(member)
        if member == node:
            return component
