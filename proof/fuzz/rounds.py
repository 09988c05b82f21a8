"""Mutated requests by the million, against the real handlers of a broker in this process.

    python -m proof fuzz --rounds 5000000 --seed 7

A round is a fresh broker on scratch files. Most frames go straight to dispatch, some through a connection in pieces of
any size, some to the decoders alone, and a few over TCP to a broker process that a good client uses all the while.
Every frame must be answered with something a client can decode, or refused; nothing may raise what nobody expected,
hold the loop up, or let memory grow; and at the end of a round the broker must stop, and start again on what it wrote.
A finding names the frame in hexadecimal: `--replay HEX` sends it alone.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter, deque
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from penstock.broker.apis import APIS
from penstock.broker.dispatch import Dispatcher
from penstock.broker.session import Reply, Session, UnanswerableError
from penstock.core.metrics.counters import RequestMetrics
from penstock.core.types import Buffer
from penstock.embedded import AsyncBroker
from penstock.protocol.codec import decode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import decode_request_header, decode_response_header
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.server.net.connection import Connection
from penstock.testing.transports import FakeTransport
from proof.caught_logs import tracebacks_noted
from proof.frame import Say, Task, memory_directory, say_nothing
from proof.fuzz.decoders import FuzzedDecoders
from proof.fuzz.mutations import Fuzzer
from proof.fuzz.odd_frames import MAX_HELD, OddFuzzer, settled_size
from proof.fuzz.tcp import fuzz_over_tcp
from proof.memory import resident_size
from proof.surprise import Surprise

ROUND_FRAMES = 50_000
_TOPICS = ("fuzz", "fuzz-2", "compacted")
_NAMES = (*_TOPICS, "fuzz-group", "consumer", "range", "uniform", "retention.ms", "1000", "f.*")
# Numbers at which a request would ask for more work than a fuzzed frame is worth, and what they are instead.
FIXED = {
    "num_partitions": (-1, 0, 1, 2, 3, 2**31 - 1),
    "count": (-1, 0, 1, 2, 3, 2**31 - 1),
    "replication_factor": (-1, 1, 1, 3),
    "max_wait_ms": (0, 0, 1, 2**31 - 1),
    "timeout_ms": (0, 100, 60_000),
    "allow_auto_topic_creation": (False, False, False, True),
}
_CONFIG = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "auto.create.topics.enable": True,
}
_FRESH_SHARE = 0.3
_VALID_SHARE = 0.4
_DECODER_SHARE = 0.15
_CONNECTION_SHARE = 0.05
_TCP_SHARE = 0.005
# A client goes away after this many of its requests wait; that is also how many tasks there are at once.
_MOST_WAITING = 200
_TURN_FRAMES = 64
_SLOW_S = 1.0
_ODD_FRAMES = 400  # about eight versions of each API
# What codecs of all APIs and versions, caches and the topics of a round take, and allocators keep.
_MAX_GROWTH = 150 * 1024 * 1024
_MOST_SHOWN = 2_000  # bytes of a frame; a longer one is made again from the seed
_MOST_EXAMPLES = 10


@dataclass
class FuzzReport:
    seed: int
    frames: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    slowest_api: str = ""
    growth: int = 0  # of the resident size, in bytes, from the first round's end to the last's
    held: int = 0  # bytes above the baseline after odd names and silence
    elapsed_s: float = 0.0
    findings: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.findings

    def add(self, other: FuzzReport) -> None:
        self.frames += other.frames
        self.counts += other.counts
        self.growth = max(self.growth, other.growth)
        self.held = max(self.held, other.held)
        self.findings += other.findings
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest_api = other.slowest_s, other.slowest_api

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))
        line = (
            f"fuzz: seed {self.seed}, {self.frames:,} frames in {self.elapsed_s:.0f} s: {counts}; slowest "
            f"{self.slowest_s * 1000:.0f} ms ({self.slowest_api}), memory +{self.growth >> 20} MB, "
            f"+{self.held >> 20} MB after odd names, "
            f"{len(self.findings)} findings"
        )
        return "\n".join([line, *(f"  {text}" for text in self.findings[:_MOST_EXAMPLES])])


class FuzzedBroker:
    """One round: frames against one broker, and what became of them."""

    def __init__(self, broker: AsyncBroker, seed: int, failures: list[str]) -> None:
        server = broker.server
        self.report = FuzzReport(seed)
        self._server = server
        self._dispatcher = Dispatcher(server.broker, APIS, RequestMetrics(), server.broker.slices)
        self._session = Session("fuzz-1", "127.0.0.1", "PLAINTEXT")
        self._dice = random.Random(seed)
        self._requests = [(api.request, api.min_version, api.max_version) for api in APIS.values()]
        ids = [topic.topic_id for topic in server.broker.metadata.image.topics.values()]
        self._fuzzer = Fuzzer(seed, self._requests, _NAMES, ids, FIXED)
        self._decoders = FuzzedDecoders(seed)
        self._failures = failures  # what the broker logs with a traceback
        self._waiting: deque[tuple[asyncio.Future[Reply], bytes]] = deque()
        self._transport: FakeTransport | None = None

    async def run(self, count: int) -> None:
        for number, frame in enumerate(self._fuzzer.frames(count, _VALID_SHARE, _FRESH_SHARE)):
            chance = self._dice.random()
            if chance < _DECODER_SHARE:
                self._try_decoder()
            elif chance < _DECODER_SHARE + _CONNECTION_SHARE:
                self._send_in_pieces(frame.data)
            else:
                self.dispatch(frame.data[4:])
            if self._failures:
                self._note(frame.data[4:], self._failures.pop(0))
                self._failures.clear()
            if number % _TURN_FRAMES == 0:
                await self._take_turn()
        self.report.frames += count
        await self._leave()

    async def run_odd(self, count: int) -> None:
        """Long names, never the same twice, in every API and version."""
        for frame in OddFuzzer(self.report.seed, self._requests, FIXED).frames(count, valid_share=1.0):
            self.dispatch(frame.data[4:])
            await self._take_turn()
        self.report.counts["with odd names"] += count
        await self._leave()

    def _note(self, frame: bytes, text: str) -> None:
        shown = frame.hex() if len(frame) <= _MOST_SHOWN else f"{frame[:_MOST_SHOWN].hex()}... ({len(frame)} bytes)"
        self.report.findings.append(f"seed {self.report.seed}: {text}; frame {shown}")

    # ---- ways in

    def dispatch(self, frame: bytes) -> None:
        started = time.thread_time()  # not what others take of the processor
        reply: Reply | Awaitable[Reply] = None
        with Surprise() as surprise:
            reply = self._dispatcher.handle(self._session, frame)
        self._note_time(frame, time.thread_time() - started)
        if surprise.error is not None:
            self._note_error(frame, surprise.error)
        elif isinstance(reply, Awaitable):
            self._waiting.append((asyncio.ensure_future(reply), frame))
        else:
            self._check_reply(frame, reply)

    def _note_error(self, frame: bytes, error: BaseException) -> None:
        if isinstance(error, UnanswerableError):
            self.report.counts["refused"] += 1
        else:  # the one thing that dispatch must never let through
            self._note(frame, f"dispatch raised {type(error).__name__}: {error}")

    def _note_time(self, frame: bytes, elapsed_s: float) -> None:
        if elapsed_s > self.report.slowest_s:
            key = int.from_bytes(frame[:2], "big")
            self.report.slowest_s = elapsed_s
            self.report.slowest_api = APIS[key].name if key in APIS else f"api {key}"
            if elapsed_s > _SLOW_S:
                self._note(frame, f"held the loop up for {elapsed_s:.1f} s")

    def _send_in_pieces(self, data: bytes) -> None:
        """Through a connection, which takes bytes as they come and closes when they make no sense."""
        if self._transport is None or self._transport.is_closing() or self._dice.random() < 0.02:
            self._hang_up()
            listener = self._server._listeners[0]
            self._transport = FakeTransport(Connection(listener))
            self._transport.connect()
        position = 0
        while position < len(data) and not self._transport.is_closing():
            size = self._dice.choice((1, 3, 20, len(data)))
            if not self._transport.receive(data[position : position + size]):
                break  # it waits for an answer; the client leaves
            position += size
        self._transport.sent.clear()
        self.report.counts["through a connection"] += 1

    def _hang_up(self) -> None:
        if self._transport is not None:
            asyncio.get_running_loop().call_soon(self._transport.lose)  # as an event loop does, in a turn of its own
            self._transport = None

    def _try_decoder(self) -> None:
        failed = self._decoders.step()
        self.report.counts["decoded"] += 1
        if failed is not None:
            self.report.findings.append(f"seed {self.report.seed}: {failed}")

    # ---- ways out

    async def _take_turn(self) -> None:
        await asyncio.sleep(0)
        still: deque[tuple[asyncio.Future[Reply], bytes]] = deque()
        for future, frame in self._waiting:
            if future.done():
                self._settle(future, frame)
            else:
                still.append((future, frame))
        while len(still) > _MOST_WAITING:
            still.popleft()[0].cancel()
            self.report.counts["abandoned"] += 1
        self._waiting = still

    def _settle(self, future: asyncio.Future[Reply], frame: bytes) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._check_reply(frame, future.result())
        else:
            self._note_error(frame, error)

    async def _leave(self) -> None:
        self._hang_up()
        await asyncio.sleep(0)
        await self._take_turn()
        for future, _ in self._waiting:
            future.cancel()
        await asyncio.gather(*(future for future, _ in self._waiting), return_exceptions=True)
        self._waiting.clear()

    def _check_reply(self, frame: bytes, reply: Reply) -> None:
        if reply is None:
            self.report.counts["without an answer"] += 1
            return
        self.report.counts["answered"] += 1
        problem = find_problem(frame, reply)
        if problem:
            self._note(frame, problem)


def find_problem(frame: Buffer, reply: Reply) -> str | None:
    """What a client could not make sense of; None when it can read all of the answer."""
    chunks = [bytes(chunk) if isinstance(chunk, Buffer) else chunk.read(0, len(chunk)) for chunk in reply or ()]
    data = b"".join(chunks)
    if int.from_bytes(data[:4], "big") != len(data) - 4:
        return f"the answer announces {int.from_bytes(data[:4], 'big')} bytes and has {len(data) - 4}"
    header = decode_request_header(frame)
    response, version = APIS[header.api_key].request.RESPONSE, header.api_version
    is_api_versions = header.api_key == ApiVersionsRequest.API_KEY
    flexible = version >= response.FLEXIBLE_FROM and not is_api_versions
    correlation_id = 0
    with Surprise() as surprise:  # whatever a decoder says to our own answer
        correlation_id, position = decode_response_header(data[4:], flexible)
        if is_api_versions and data[4 + position : 6 + position] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0
        decode(response, data[4:], version, position)
    if surprise.error is not None:
        return f"the answer cannot be decoded: {surprise}"
    if correlation_id != header.correlation_id:
        return f"the answer is to request {correlation_id}"
    return None


async def run_round(
    directory: Path, seed: int, count: int, replayed: bytes | None = None, odd_count: int = 0
) -> FuzzReport:
    failures: list[str] = []
    with tracebacks_noted(failures.append):
        async with AsyncBroker(directory, config=_CONFIG) as broker:
            for topic in _TOPICS:
                await broker.create_topic(topic, 2, {"cleanup.policy": "compact"} if topic == "compacted" else {})
            fuzzed = FuzzedBroker(broker, seed, failures)
            if replayed is None:
                await fuzzed.run(count)
                await fuzzed.run_odd(odd_count)
            else:
                fuzzed.dispatch(replayed)
                await asyncio.sleep(0.2)
                await fuzzed.run(0)
        report = fuzzed.report
        with Surprise() as surprise:  # it must start on whatever it wrote itself
            async with asyncio.timeout(60), AsyncBroker(directory, config=_CONFIG):
                pass
        if surprise.error is not None:
            report.findings.append(f"seed {seed}: no start afterwards: {surprise}")
        report.findings += [f"seed {seed}: {text}" for text in failures]
    return report


def _run_rounds(seed: int, rounds: list[tuple[int, int]]) -> FuzzReport:
    """Several rounds in one process, whose memory must not grow from one to the next."""
    total, first_size = FuzzReport(seed), 0
    for number, count in rounds:
        with tempfile.TemporaryDirectory(prefix="penstock-fuzz-", dir=memory_directory()) as scratch:
            total.add(asyncio.run(run_round(Path(scratch), seed + number, count)))
        first_size = first_size or resident_size()
        total.growth = max(total.growth, resident_size() - first_size)
    if total.growth > _MAX_GROWTH:
        total.findings.append(f"memory grew by {total.growth >> 20} MB in {len(rounds)} rounds")
    return total


def _run_odd_rounds(seed: int) -> FuzzReport:
    """What this process holds when a broker that was sent odd names is gone. The first round is to warm up."""
    total, before = FuzzReport(seed), 0
    for count in (_ODD_FRAMES // 10, _ODD_FRAMES):
        before = settled_size()
        with tempfile.TemporaryDirectory(prefix="penstock-fuzz-", dir=memory_directory()) as scratch:
            total.add(asyncio.run(run_round(Path(scratch), seed, 0, odd_count=count)))
    total.held = settled_size() - before
    if total.held > MAX_HELD:
        total.findings.append(f"{total.held >> 20} MB are held after odd names; at most {MAX_HELD >> 20} are expected")
    return total


def run_fuzz(frames: int, seed: int, processes: int = 1, say: Say = say_nothing) -> FuzzReport:
    started = time.monotonic()
    total = FuzzReport(seed)
    total.add(_run_odd_rounds(seed))
    over_tcp = int(frames * _TCP_SHARE)
    left = frames - over_tcp
    rounds = [(number, min(ROUND_FRAMES, left - start)) for number, start in enumerate(range(0, left, ROUND_FRAMES))]
    if processes == 1:
        total.add(_run_rounds(seed, rounds))
    else:
        with ProcessPoolExecutor(processes) as pool:
            parts = [rounds[start::processes] for start in range(processes)]
            for done in pool.map(_run_rounds, [seed] * processes, parts):
                total.add(done)
                say(f"{total.frames:,} frames, {len(total.findings)} findings")
    counts, findings = fuzz_over_tcp(over_tcp, seed, FIXED) if over_tcp else (Counter[str](), [])
    total.counts += Counter({f"{name} over TCP": count for name, count in counts.items()})
    total.findings += findings
    total.frames += over_tcp
    total.elapsed_s = time.monotonic() - started
    return total


def run(task: Task) -> FuzzReport:
    if task.options["replay"]:
        frame = bytes.fromhex(task.options["replay"])
        return asyncio.run(run_round(task.scratch, task.seed, 0, frame))
    return run_fuzz(task.rounds, task.seed, task.options["processes"], task.say)
