"""The clients of one episode, on topics of its own, and the verdict about what they were promised.

An episode is some faults long. Its history is judged when it ends, so that a long run needs no more memory than a short
one, and a finding is near its cause.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from penstock.testing.fleet.client import Client, Setting
from penstock.testing.fleet.pollers import AssignedPoller, SubscribedPoller
from penstock.testing.fleet.read_back import read_everything
from penstock.testing.fleet.recorder import Recorder
from penstock.testing.fleet.senders import BatchSender
from penstock.testing.fleet.transactions import Habits, TransactionalSender, Transformer
from penstock.testing.fleet.values import decode_value
from penstock.testing.history import Isolation, Outcome, Where
from penstock.testing.history.run import read_to_the_end, wait_for_coordinators
from penstock.testing.history_check import check
from proof.cluster.members import FaultCluster
from proof.cluster.replicas import compare_replicas, find_directory, read_batches
from proof.cluster.report import ClusterReport
from proof.copies import find_copies, judge_copies
from proof.crash.check import judge_stream
from proof.fleet.committer import Committer, read_committed
from proof.fleet.streams import STREAM_KINDS, StreamLog, StreamReader, StreamSender, name_stored, read_streamed
from proof.promises import check_last_commit

_PARTITIONS = 2
# Each broker leads one of them, so that a producer meets several leaders at once.
_STREAMED_PARTITIONS = 3
# Records that only the leader has are lost with it: acks=1 promises no more, and is not here.
_STREAMS = ("idempotent", "pipelined", "plain-all")
# Two cores for everything: enough that each fault meets batches in flight, and no more.
_STREAM_PAUSE_S = 0.2
_PAUSE_S = 0.05
_DAWDLE_CHANCE = 0.05
# A producer that is left with records under way is never freed, and works on: one of librdkafka cannot be ended then.
_HABITS = Habits(commit=75, abort=25, leave=0, zombie=0)
_JOIN_DEADLINE_S = 120.0
_PROGRESS_DEADLINE_S = 60.0
_IDENTICAL_DEADLINE_S = 20.0
# A broker that is paused or cut off answers nothing, and resets nothing: the client has to give up by itself.
_LIBRARY = {"socket.timeout.ms": 4_000, "request.timeout.ms": 3_500}


class Load:
    def __init__(self, cluster: FaultCluster, seed: int, episode: int) -> None:
        self._cluster = cluster
        self.servers = cluster.bootstrap_servers
        self.recorder = Recorder()
        self.group = f"committer-{episode}"
        self.topics = [f"mixed-{episode}", f"streamed-{episode}"]
        counts = dict(zip(self.topics, (_PARTITIONS, _STREAMED_PARTITIONS), strict=True))
        mixed, streamed = ([(topic, index) for index in range(count)] for topic, count in counts.items())
        self.mixed: list[Where] = mixed
        self.streamed: list[Where] = streamed
        for topic, count in counts.items():
            cluster.create_topic(topic, count)
        wait_for_coordinators(self.servers, self.mixed)
        seed_here = seed * 1_000 + episode

        def setting(targets: list[Where]) -> Setting:
            return Setting(self.servers, targets, self.recorder, seed_here, _DAWDLE_CHANCE, _LIBRARY)

        def name(kind: str) -> str:
            return f"{kind}-{episode}"

        numbers = [number for number, kind in enumerate(STREAM_KINDS) if kind.name in _STREAMS]
        self.senders = [StreamSender(number, setting(streamed), _PROGRESS_DEADLINE_S) for number in numbers]
        self.reader = StreamReader(name("reader"), setting(streamed))
        self.committer = Committer(self.group, setting(streamed))
        committed, uncommitted = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
        groups = {protocol: f"{protocol}-{episode}" for protocol in ("classic", "consumer")}
        self.clients: list[Client] = [
            *self.senders,
            self.reader,
            self.committer,
            BatchSender(name("batches"), setting(mixed)),
            TransactionalSender(name("transactional"), setting(mixed), _HABITS),
            TransactionalSender(name("transactional-too"), setting(mixed), _HABITS),
            Transformer(name("transformer"), setting(mixed), group=name("transformers")),
            AssignedPoller(name("assigned"), setting(mixed), isolation=committed),
            AssignedPoller(name("assigned-uncommitted"), setting(mixed), isolation=uncommitted),
            *(
                SubscribedPoller(
                    name(f"in-{group}"), setting(mixed), group=group, protocol=protocol, isolation=committed
                )
                for protocol, group in groups.items()
            ),
        ]
        for client in self.clients:
            client.pause_s = _STREAM_PAUSE_S if client in self.senders else _PAUSE_S

    def __enter__(self) -> Self:
        for client in self.clients:
            client.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.clients:
            client.end()
        if kind is not None:  # there is nothing to judge, and whoever interrupted the run waits
            return
        deadline = time.monotonic() + _JOIN_DEADLINE_S
        for client in self.clients:
            client.join(max(0.0, deadline - time.monotonic()))
            if client.is_alive():
                self.recorder.problems.append(f"{client.name} did not end within {_JOIN_DEADLINE_S} s")

    # ---------------------------------------------------------------------------------------- while it runs

    def why_not_moving(self) -> str:
        """After a fault everything goes on: what was sent by now is acknowledged, another offset is committed."""
        sent = [len(sender.log.offsets) for sender in self.senders]
        commits = self.committer.acknowledged
        deadline = time.monotonic() + _PROGRESS_DEADLINE_S
        while True:
            waiting = [
                sender.name
                for sender, count in zip(self.senders, sent, strict=True)
                if count and sender.log.offsets[count - 1] == StreamLog.UNACKNOWLEDGED
            ]
            if self.committer.acknowledged == commits:
                waiting.append(self.committer.name)
            if not waiting:
                return ""
            if time.monotonic() > deadline:
                return f"no progress of {', '.join(waiting)} within {_PROGRESS_DEADLINE_S} s of healing"
            time.sleep(0.05)

    def check_commits(self, report: ClusterReport, after: str) -> None:
        least, target = self.committer.acknowledged, self.committer.target
        committed = read_committed(self.servers, self.group, target, _PROGRESS_DEADLINE_S)
        anomalies = check_last_commit(self.group, target, least, self.committer.attempted, committed.offset)
        report.other += [f"after {after}: {anomaly}" for anomaly in anomalies]

    # ---------------------------------------------------------------------------------------- when it is over

    def judge(self, report: ClusterReport) -> None:
        """When all clients have ended, and all replicas are in sync."""
        report.commits += self.committer.acknowledged
        report.other += self.recorder.problems
        report.other += self._compare_soon()
        self._judge_streams(report)
        final, stuck = read_to_the_end(self.servers, self.mixed)
        history = check(self.recorder.operations, final=final)
        anomalies = list(history.anomalies)
        for target in self.mixed:
            copies = find_copies(self._read_replica(target), lambda record: decode_value(record.value))
            anomalies = judge_copies(target, copies, anomalies)
        report.add(anomalies)
        report.other += stuck
        report.sent += history.sent
        report.polled += history.polled
        for operation in self.recorder.operations:
            if operation.transaction:
                report.transactions[operation.outcome] += 1
            elif operation.outcome is Outcome.OK:
                report.acknowledged += sum(getattr(action, "offset", None) is not None for action in operation.actions)

    def _judge_streams(self, report: ClusterReport) -> None:
        logs = [sender.log for sender in self.senders]
        for target in self.streamed:
            messages = read_everything(self.servers, [target], "read_uncommitted")
            stored = [(message.offset() or 0, read_streamed(message)) for message in messages]
            served = self.reader.served[target]
            judged = judge_stream(self.streamed, target, logs, served, stored, has_other_leaders=True)
            copies = find_copies(self._read_replica(target), lambda record: name_stored(record.value, record.key))
            report.add(judge_copies(target, copies, judged.anomalies))
            report.retried += judged.repeated
        report.acknowledged += sum(log.acknowledged for log in logs)
        report.sent += sum(len(log.offsets) for log in logs)

    def _read_replica(self, target: Where) -> Iterator[bytes]:
        """Of any broker that has one: they are the same."""
        name = f"{target[0]}-{target[1]}"
        (directory, *_) = [
            found for broker in self._cluster.brokers if (found := find_directory(broker.log_dirs, name)).is_dir()
        ]
        return read_batches(directory)

    def _compare_soon(self) -> list[str]:
        """Nobody writes any more, but followers may fetch the last markers a moment later."""
        brokers = self._cluster.brokers
        deadline = time.monotonic() + _IDENTICAL_DEADLINE_S
        while True:
            problems = [
                problem
                for topic, partition in (*self.mixed, *self.streamed)
                for problem in compare_replicas(
                    [find_directory(broker.log_dirs, f"{topic}-{partition}") for broker in brokers], are_closed=False
                )
            ]
            if not problems or time.monotonic() > deadline:
                return problems
            time.sleep(0.2)
