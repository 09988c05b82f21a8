"""Mutated requests over TCP to a broker process, beside a good client that must not notice. For `fuzz.rounds`."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.broker.apis import APIS
from penstock.testing.processes import BrokerProcess
from proof.fuzz.mutations import FuzzedFrame, Fuzzer
from proof.hostile.clients import GoodClient, HostileSocket

_NAMES = ("fuzz", "fuzz-2", "fuzz-group", "consumer", "range", "retention.ms", "1000")
_ANSWER_TIMEOUT_S = 0.03
_ALARMS = ("Traceback", "never retrieved", "was destroyed", "never awaited")


class TcpOutcomes:
    """What became of mutated frames. A connection is used until it is closed or has to wait."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._connection: HostileSocket | None = None
        self.counts: Counter[str] = Counter()

    def send(self, frame: FuzzedFrame) -> None:
        connection = self._connection or HostileSocket(self._bootstrap_servers)
        self._connection = None
        try:
            connection.send(frame.data)
            answer = connection.receive_frame(timeout_s=_ANSWER_TIMEOUT_S)
        except TimeoutError:
            self.counts["waiting"] += 1  # a poll, a join, or produce without acknowledgements
            connection.reset()
        except ConnectionError:
            self.counts["closed"] += 1
            connection.close()
        else:
            self.counts["closed" if answer is None else "answered"] += 1
            if answer is None:
                connection.close()
            else:
                self._connection = connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def fuzz_over_tcp(count: int, seed: int, fixed: Mapping[str, Sequence[Any]]) -> tuple[Counter[str], list[str]]:
    """(what became of the frames, what went wrong)"""
    requests = [(api.request, api.min_version, api.max_version) for api in APIS.values()]
    # Topics that exist are not made more of here: the good client's metadata would show every one of them.
    fuzzer = Fuzzer(seed, requests, _NAMES, fixed={**fixed, "validate_only": (True,)})
    findings: list[str] = []
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as scratch:
        process = BrokerProcess(Path(scratch) / "data", config={"group.initial.rebalance.delay.ms": "0"})
        with process:
            good = GoodClient(process.bootstrap_servers, "good").start()
            outcomes = TcpOutcomes(process.bootstrap_servers)
            try:
                good.wait_for_progress()
                for number, frame in enumerate(fuzzer.frames(count, 0.5)):
                    outcomes.send(frame)
                    if not process.is_running:
                        findings.append(f"the broker ended at frame {number} over TCP: {frame.data.hex()}")
                        break
                good.wait_for_progress()
            except AssertionError as error:
                findings.append(str(error))
            finally:
                outcomes.close()
                good.stop()
            findings += [f"the good client over TCP: {text}" for text in good.errors[:3]]
        log = process.read_log()
        findings += [f"the log of the broker over TCP has {alarm!r}" for alarm in _ALARMS if alarm in log]
    return outcomes.counts, findings
