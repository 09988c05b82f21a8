"""A client that drains a broker, takes it away with its disk when it holds nothing, and uses the one that follows."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from proof.simulation.client import Asking, Call, Client, Script
from proof.simulation.operating.requests import (
    EXPECTED_OF_MOVES,
    Moves,
    find_replicas,
    name_codes,
    reassign,
    unexpected,
    without,
)

_LOOK_MS = 60.0
# A broker that another one's absence keeps in office is left there.
_MOST_LOOKS = 60
# A broker that comes back empty gets replicas of what has fewer.
_USUAL_REPLICAS = 3


class Decommissioner(Client):
    def run(self) -> Script:
        yield self.pause() * 3
        while self.goes_on:
            node = self.chance.randrange(len(self.setting.machines))
            self.note(f"drains {node}")
            is_empty = yield from self._drain(node)
            if is_empty and self.goes_on:
                self.note(f"takes {node} away" if self.setting.retire(node) else f"leaves {node} where it is")
            yield self.pause()
            yield from self._bring_back(node)
            yield self.pause() * 5

    def _drain(self, node: int) -> Generator[Call | float, Any, bool]:
        """Until no partition has a replica there, as the cluster says."""
        nodes = range(len(self.setting.machines))
        for _ in range(_MOST_LOOKS):
            known = yield from find_replicas(None)
            held = {partition: replicas for partition, replicas in known.items() if node in replicas}
            if known and not held:
                return True
            if not self.goes_on:
                return False
            if held:
                yield from self._reassign(
                    {partition: without(replicas, node, nodes) for partition, replicas in held.items()}
                )
            yield _LOOK_MS
        return False

    def _bring_back(self, node: int) -> Asking:
        known = yield from find_replicas(None)
        moves = {
            partition: (*replicas, node)
            for partition, replicas in known.items()
            if node not in replicas and len(replicas) < _USUAL_REPLICAS
        }
        if moves:
            yield from self._reassign(moves)

    def _reassign(self, moves: Moves) -> Asking:
        codes = yield from reassign(moves)
        self.note(f"moves {moves}: {name_codes(codes)}")
        for text in unexpected(codes or {}, EXPECTED_OF_MOVES):
            self.notebook.fail(f"{self.name} moves replicas: {text}")
