"""Mutated logins by the million, against a broker in this process and over TCP: nobody gets in who should not.

    python -m proof logins --rounds 1000000 --seed 7

Each connection plays one way to log in, right or wrong, with tokens, frames and sizes bent by chance. Whatever comes,
the broker answers with something a client can decode or closes the connection; it serves nothing but the login before
the login; whoever gets in is the one user that there is, with the right credentials; nothing raises what nobody
expected, and memory does not grow.
"""

from __future__ import annotations

import asyncio
import struct
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from penstock.broker.apis import APIS
from penstock.broker.session import ANONYMOUS
from penstock.protocol.framing import decode_request_header
from penstock.security.sasl.login_state import AUTHENTICATE_KEY, HANDSHAKE_KEY, VERSIONS_KEY, Phase
from penstock.server.net.connection import Connection
from penstock.testing.transports import FakeTransport
from proof.caught_logs import tracebacks_noted
from proof.frame import Say, Task, memory_directory, say_nothing
from proof.fuzz.rounds import find_problem
from proof.logins.broker import USER, LoginBroker, running
from proof.logins.scripts import Bending, Login, logins, play
from proof.logins.tcp import over_tcp
from proof.memory import resident_size
from proof.surprise import Surprise

_BEFORE_LOGIN = (VERSIONS_KEY, HANDSHAKE_KEY, AUTHENTICATE_KEY)
_ROUND_FRAMES = 50_000
# Below it the start of a process would take longer than the rounds.
_TCP_FROM = 50_000
_TCP_SHARE = 0.002
_MAX_GROWTH = 100 * 1024 * 1024
_MOST_TURNS = 2_000
_MOST_EXAMPLES = 10


@dataclass
class LoginReport:
    seed: int
    frames: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    growth: int = 0
    elapsed_s: float = 0.0
    findings: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))
        line = (
            f"logins: seed {self.seed}, {self.frames:,} frames in {self.elapsed_s:.0f} s: {counts}; "
            f"memory +{self.growth >> 20} MB, {len(self.findings)} findings"
        )
        return "\n".join([line, *(f"  {text}" for text in self.findings[:_MOST_EXAMPLES])])


class FuzzedLogins:
    """One round: connections against one broker, one after the other."""

    def __init__(self, broker: LoginBroker, seed: int, report: LoginReport, failures: list[str]) -> None:
        self._listener = broker.listener
        self._bending = Bending(seed)
        self._seed = seed
        self._report = report
        self._failures = failures  # what the broker logs with a traceback
        self._logins = logins(broker.issuer)

    async def run(self, count: int) -> None:
        end = self._report.frames + count
        while self._report.frames < end:
            login = self._bending.dice.choice(self._logins)
            connection = Connection(self._listener)
            transport = FakeTransport(connection)
            transport.connect()
            try:
                await self._play(login, connection, transport, end)
            finally:
                transport.lose()
            await asyncio.sleep(0)
            if self._listener.connection_count:
                self._note(b"", "a connection is left")

    async def _play(self, login: Login, connection: Connection, transport: FakeTransport, end: int) -> None:
        script = play(login, self._bending)
        payload = next(script)
        while self._report.frames < end:
            frame = self._bending.frame(payload)
            answer = await self._exchange(login, connection, transport, frame)
            if self._failures:
                self._note(frame, self._failures.pop(0))
                self._failures.clear()
            if transport.is_closing():
                self._report.counts["connections closed"] += 1
                return
            try:
                payload = script.send(answer)
            except StopIteration:
                return

    async def _exchange(
        self, login: Login, connection: Connection, transport: FakeTransport, frame: bytes
    ) -> bytes | None:
        self._report.frames += 1
        state = connection.session.login
        phase = Phase.NEW if state is None else state.phase
        data = struct.pack(">i", self._bending.size(frame)) + frame
        cut = self._bending.dice.choice((len(data), len(data), 1, len(data) // 2))
        seen = len(transport.sent)
        with Surprise() as surprise:
            transport.receive(data[:cut])
            transport.receive(data[cut:])
        if surprise.error is not None:
            self._note(frame, f"a connection raised {surprise}")
        for turn in range(_MOST_TURNS):
            if not connection.pending.replies or transport.is_closing():
                break
            await asyncio.sleep(0 if turn < 100 else 0.005)  # keys may be read in a thread
        else:
            self._note(frame, "an answer did not come")
        answer = bytes(transport.sent[seen:])
        self._check_login(login, connection, frame)
        return self._check_answer(phase, frame, answer) if answer else None

    def _check_login(self, login: Login, connection: Connection, frame: bytes) -> None:
        principal = connection.session.principal
        if principal is ANONYMOUS:
            return
        self._report.counts["frames after a login"] += 1
        if principal.name != USER or not login.is_right:
            self._note(frame, f"{principal} is in by {login.mechanism}")

    def _check_answer(self, phase: Phase, frame: bytes, answer: bytes) -> bytes | None:
        """Without its size. Some frames are two requests, of which the first is checked."""
        self._report.counts["answered"] += 1
        size = int.from_bytes(answer[:4], "big")
        if size > len(answer) - 4:
            self._note(frame, "an answer is cut off")
            return None
        if phase is Phase.BARE_TOKENS:
            return answer[4 : 4 + size]
        key = int.from_bytes(frame[:2], "big")
        if phase is not Phase.OPEN and key not in _BEFORE_LOGIN:
            self._note(frame, "a request was answered before the login")
        elif key in APIS and len(frame) >= 8:
            with Surprise() as surprise:
                decode_request_header(frame)
            problem = find_problem(frame, [answer[: 4 + size]]) if surprise.error is None else str(surprise)
            if problem:
                self._note(frame, problem)
        return answer[4 : 4 + size]

    def _note(self, frame: bytes, text: str) -> None:
        self._report.findings.append(f"seed {self._seed}: {text}; frame {frame[:500].hex()} ({len(frame)} bytes)")


async def run_round(directory: Path, seed: int, count: int, report: LoginReport) -> None:
    failures: list[str] = []
    with tracebacks_noted(failures.append):
        async with running(directory) as broker:
            await FuzzedLogins(broker, seed, report, failures).run(count)
            counted = broker.metrics.logins
            report.counts["refused"] += counted.failed
            report.counts["logged in"] += counted.succeeded
    report.findings += [f"seed {seed}: {text}" for text in failures]


def run_logins(frames: int, seed: int, say: Say = say_nothing) -> LoginReport:
    report, started, first_size = LoginReport(seed), time.monotonic(), 0
    through_sockets = int(frames * _TCP_SHARE) if frames >= _TCP_FROM else 0
    left = frames - through_sockets
    for number, start in enumerate(range(0, left, _ROUND_FRAMES)):
        with tempfile.TemporaryDirectory(prefix="penstock-logins-", dir=memory_directory()) as scratch:
            asyncio.run(run_round(Path(scratch), seed + number, min(_ROUND_FRAMES, left - start), report))
        first_size = first_size or resident_size()
        report.growth = max(report.growth, resident_size() - first_size)
        say(f"{report.frames:,} frames, {len(report.findings)} findings")
    if report.growth > _MAX_GROWTH:
        report.findings.append(f"memory grew by {report.growth >> 20} MB")
    if through_sockets:
        with tempfile.TemporaryDirectory(prefix="penstock-logins-") as scratch:
            counts, findings = over_tcp(Path(scratch), through_sockets, seed)
        report.frames += through_sockets
        report.counts += Counter({f"{name} over TCP": count for name, count in counts.items()})
        report.findings += findings
    report.elapsed_s = time.monotonic() - started
    return report


def run(task: Task) -> LoginReport:
    return run_logins(task.rounds, task.seed, task.say)
