"""The common part of all clients of the fleet: a thread, a seed, the settings of the client library, a way to end.

Each client runs in a thread of its own for the whole run, and records only what the brokers answer. No client judges:
`penstock.testing.history_check` does. A reason that kept a client from working goes into the recorder's problems.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.testing.fleet.patience import PATIENT, UNHEARD
from penstock.testing.fleet.recorder import Recorder
from penstock.testing.history import Where

# A client may go on for this long after the request to end, to learn the outcome of its last operation.
_GRACE_S = 30.0
_DAWDLING_S = (0.01, 0.01, 0.02, 0.05, 0.1, 0.1, 0.3, 1.5)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a client works. `dawdle_chance`: how often a client lets time pass in the middle of an operation.
    `library`: settings of the client library beside the usual ones.
    """

    servers: str
    targets: Sequence[Where]
    recorder: Recorder
    seed: int
    dawdle_chance: float = 0.0
    library: Mapping[str, Any] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.targets})


class Client(threading.Thread):
    """Takes one step after the other until the run ends it."""

    pause_s = 0.01

    def __init__(self, name: str, setting: Setting) -> None:
        super().__init__(name=name, daemon=True)
        self.setting = setting
        self.targets = setting.targets
        self.recorder = setting.recorder
        self.process = setting.recorder.take_process()
        self.base_config: dict[str, Any] = {
            "bootstrap.servers": setting.servers,
            **PATIENT,
            **setting.library,
            "logger": UNHEARD,
        }
        self.random = random.Random(f"{setting.seed} {name}")
        self.ending = threading.Event()
        self._ends_at = float("inf")

    def end(self) -> None:
        self._ends_at = time.monotonic() + _GRACE_S
        self.ending.set()

    @property
    def has_given_up(self) -> bool:
        return time.monotonic() > self._ends_at

    def run(self) -> None:
        is_whole = False
        try:
            while not self.ending.is_set():
                self.step()
                self.ending.wait(self.random.uniform(0, 2 * self.pause_s))
            is_whole = True
        finally:
            if not is_whole:  # a run must not take a dead thread for a good one
                self.note_problem(f"died: {sys.exception()!r}")
            self.close()

    def step(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the client object."""

    def note_problem(self, text: str) -> None:
        self.recorder.problems.append(f"{self.name}: {text}")

    def dawdle(self) -> None:
        """Now and then, let time pass in the middle of things: for the others, for a kill, for a timeout."""
        if self.random.random() < self.setting.dawdle_chance:
            self.ending.wait(self.random.choice(_DAWDLING_S))
