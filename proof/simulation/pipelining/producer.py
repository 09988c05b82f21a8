"""A producer with several requests in flight: its application, its connections, and the rules that say what is sent."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence

from penstock.protocol.codec import decode, encode
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.records import build_batch
from penstock.testing.history import Outcome
from proof.simulation.client import Script
from proof.simulation.notebook import Partition
from proof.simulation.pipelining.batches import (
    BACKOFF_MS,
    MOST_IN_FLIGHT,
    NO_ANSWER,
    Answer,
    Batch,
    Listener,
    Rules,
    Sending,
)
from proof.simulation.pipelining.java import JavaRules
from proof.simulation.pipelining.librdkafka import LibrdkafkaRules
from proof.simulation.pipelining.sockets import Socket
from proof.simulation.producers import Producer
from proof.simulation.topics import RECORDS, RECORDS_PARTITIONS

_PARTITIONS: tuple[Partition, ...] = tuple((RECORDS, index) for index in range(RECORDS_PARTITIONS))
_VERSION = 9
# For how long a broker waits for its replicas, and a client for its broker. With the longest ones a client hears what a
# leader without a lease has to say.
_TIMEOUTS_MS = ((700, 900), (2_000, 2_500), (5_000, 6_000), (5_000, 6_000))
# The longest is shorter than the time that clients have to finish.
_DELIVERY_TIMEOUTS_MS = (3_000, 8_000, 15_000)
# A producer whose broker is away goes on to take records, up to a bound.
_MOST_WAITING = 60
_BREAK = 0.005
_TURN = 0.1
# How often a packet is lost, and for how long all behind it waits: a pipeline that is spread over some time meets a
# change of its leader in its middle.
_STALL = (0.0, 0.1, 0.25, 0.25)
_STALLS_MS = (40.0, 150.0, 400.0)
_RETRY_MS = 20.0


class _Link:
    """A connection, and the requests on it in the order in which they are answered."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.socket: Socket | None = None
        self.waiting: deque[list[Sending]] = deque()


class PipeliningProducer(Producer):
    """Hands over records all the time, mostly one in a batch, and waits for nothing."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._links: dict[int, _Link] = {}
        self._handed_over = dict.fromkeys(_PARTITIONS, 0)
        self._unfinished = 0
        self._written: Sequence[Partition] = _PARTITIONS  # of which some have a rest
        self._has_failed = False
        self._broker_timeout_ms, self._timeout_ms = self.chance.choice(_TIMEOUTS_MS)
        self._stall = self.chance.choice(_STALL)

    def make_rules(self, listener: Listener) -> Rules:
        raise NotImplementedError

    # ---- the application

    def run(self) -> Script:
        if not (yield from self.initialise()):
            return
        rules = self.make_rules(Listener(self._done, self.note, self._fail))
        self.note(f"waits {self._timeout_ms} ms for a broker, which waits {self._broker_timeout_ms} ms for replicas")
        while not self._has_failed and (self.goes_on or not rules.is_idle):
            yield from self.find_leaders(_PARTITIONS)
            if self.goes_on and self._unfinished < _MOST_WAITING:
                self._hand_over(rules)
            self._pump(rules)
            is_at_ease = self.goes_on and all(self.known_leader(each) is not None for each in _PARTITIONS)
            yield self.pause() if is_at_ease else _RETRY_MS
        for link in list(self._links.values()):
            self._end(rules, link, "is done")

    def _hand_over(self, rules: Rules) -> None:
        """A partition that is written again after a rest has nothing under way, unlike the others."""
        if self.chance.random() < _TURN:
            self._written = self.chance.sample(_PARTITIONS, self.chance.randint(0, len(_PARTITIONS)))
        for _ in range(self.chance.randint(1, 6) if self._written else 0):
            partition = self.chance.choice(self._written)
            attempt = self.notebook.begin(self.number)
            records = self.some_records(partition, attempt)[: self.chance.choice((1, 1, 1, 3))]
            del attempt.actions[len(records) :]
            rules.add(Batch(partition, self._handed_over[partition], records, attempt, self.setting.world.time_ms))
            self._handed_over[partition] += len(records)
            self._unfinished += 1

    def _done(self, batch: Batch, outcome: Outcome, offset: int) -> None:
        self._unfinished -= 1
        if offset >= 0:
            batch.attempt.number_sends(batch.count, offset)
        self.notebook.end(batch.attempt, outcome)

    def _fail(self, text: str) -> None:
        self._has_failed = True
        self.notebook.fail(f"{self.name}: {text}")

    # ---- sending

    def _pump(self, rules: Rules) -> None:
        led: dict[int, list[Partition]] = {}
        for partition in _PARTITIONS:
            node = self.known_leader(partition)
            if node is not None:
                led.setdefault(node, []).append(partition)
        for node, partitions in led.items():
            link = self._connect(rules, node)
            if link is None:
                continue
            now_ms = self.setting.world.time_ms
            for sendings in rules.take(node, partitions, MOST_IN_FLIGHT - len(link.waiting), now_ms):
                self._transmit(rules, link, sendings)

    def _connect(self, rules: Rules, node: int) -> _Link | None:
        link = self._links.get(node)
        if link is None:
            machine = self.setting.machines[node]
            if not machine.is_serving or self.setting.is_cut_off(node):
                self._routes.forget()
                return None
            link = self._links[node] = _Link(node)
            is_cut = functools.partial(self.setting.is_cut_off, node)
            told = functools.partial(self._receive, rules, link)
            link.socket = Socket(machine, self.name, self.number, is_cut, self._choose_delay_ms, told)
        return link

    def _choose_delay_ms(self) -> float:
        return self.chance.choice(_STALLS_MS) if self.chance.random() < self._stall else self._delay_ms()

    def _transmit(self, rules: Rules, link: _Link, sendings: list[Sending]) -> None:
        self.notebook.requests += 1
        link.waiting.append(sendings)
        if link.socket is None or not link.socket.is_open or self.chance.random() < _BREAK:
            self._end(rules, link, "breaks")
            return
        link.socket.send(self._encode(sendings))
        self.setting.world.after(
            self._timeout_ms, self.number, functools.partial(self._run_out_of_patience, rules, link, sendings)
        )

    def _encode(self, sendings: Sequence[Sending]) -> bytes:
        data = [
            PartitionProduceData(
                index=batch.partition[1],
                records=build_batch(
                    batch.records, producer_id=self.producer_id, producer_epoch=epoch, base_sequence=sequence
                ),
            )
            for batch, epoch, sequence in sendings
        ]
        request = ProduceRequest(
            acks=-1,
            timeout_ms=self._broker_timeout_ms,
            topic_data=[TopicProduceData(name=RECORDS, partition_data=data)],
        )
        is_flexible = _VERSION >= ProduceRequest.FLEXIBLE_FROM
        head = encode_request_header(ProduceRequest.API_KEY, _VERSION, 0, self.name, is_flexible)
        return head + encode(request, _VERSION)

    # ---- answers

    def _receive(self, rules: Rules, link: _Link, frame: bytes | None) -> None:
        if frame is None:
            self._end(rules, link, "is closed")
        else:
            sendings = link.waiting.popleft()
            _, position = decode_response_header(frame, _VERSION >= ProduceResponse.FLEXIBLE_FROM)
            response = decode(ProduceResponse, frame, _VERSION, position)
            rows = {row.index: row for row in response.responses[0].partition_responses}
            for sending in sendings:
                row = rows[sending.batch.partition[1]]
                answer = Answer(row.error_code, row.base_offset)
                self.note(f"{sending}: {answer.offset if not answer.code else answer.name}")
                rules.settle(sending, answer, self.setting.world.time_ms)
            self._routes.heed(response)
            if any(row.error_code for row in rows.values()):
                self.setting.world.after(BACKOFF_MS, self.number, functools.partial(self._pump, rules))
        self._pump(rules)

    def _run_out_of_patience(self, rules: Rules, link: _Link, sendings: list[Sending]) -> None:
        if any(each is sendings for each in link.waiting):
            self._end(rules, link, "gives no answer")

    def _end(self, rules: Rules, link: _Link, why: str) -> None:
        """Nothing is known of what was under way."""
        if self._links.get(link.node) is link:
            del self._links[link.node]
        if link.socket is not None:
            link.socket.close()
        waiting, link.waiting = list(link.waiting), deque()
        if waiting:
            self.note(f"connection to {link.node} {why}, {len(waiting)} requests are under way")
            self._routes.forget()
        for sendings in waiting:
            for sending in sendings:
                rules.settle(sending, Answer(NO_ANSWER), self.setting.world.time_ms)


class LibrdkafkaProducer(PipeliningProducer):
    def make_rules(self, listener: Listener) -> Rules:
        return LibrdkafkaRules(self.producer_epoch, listener)


class JavaProducer(PipeliningProducer):
    def make_rules(self, listener: Listener) -> Rules:
        return JavaRules(self.producer_epoch, listener, self.chance.choice(_DELIVERY_TIMEOUTS_MS))
