"""A thousand consumers in a hundred groups change their subscription at once: how long until all have their partitions.

Through bare connections, one for each member, since a thousand client libraries in one process would measure that
process. Every member joins again on its own accord, as after a change of a topic, so nothing waits for a heartbeat.
"""

from __future__ import annotations

import itertools
import struct
import time
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.contenders import CpuMeter
from bench.errors import BenchError
from bench.loads import PATIENCE_S, Figures, Scale, topic_of
from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.testing.processes import ServerProcess

GROUPS = 100
MEMBERS_PER_GROUP = 10
PARTITIONS = 10
SESSION_TIMEOUT_MS = 60_000
FIND_COORDINATOR_VERSION, JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 4, 7, 5, 4
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"

_run_numbers = itertools.count(1)


@dataclass(slots=True)
class Member:
    group: str
    connection: BlockingConnection
    member_id: str = ""
    generation: int = -1
    waiting_for: int = 0
    session_timeout_ms: int = SESSION_TIMEOUT_MS

    def send_join(self, subscription: bytes) -> None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
        )
        self.waiting_for = self.connection.send(request, JOIN_VERSION)

    def send_sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        self.waiting_for = self.connection.send(request, SYNC_VERSION)

    def receive(self) -> Any:
        return self.connection.receive(self.waiting_for, timeout_s=PATIENCE_S)


def encode_subscription(topic: str, user_data: bytes) -> bytes:
    name = topic.encode()
    return struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">i", len(user_data)) + user_data


def encode_assignment(topic: str, partitions: list[int]) -> bytes:
    name = topic.encode()
    head = struct.pack(">hih", 0, 1, len(name)) + name
    return head + struct.pack(f">i{len(partitions)}ii", len(partitions), *partitions, 0)


def measure_rebalance(server: ServerProcess, scale: Scale) -> Figures:
    meter = CpuMeter()
    run = next(_run_numbers)
    with topic_of(server, PARTITIONS) as topic, ExitStack() as stack:
        groups = [
            [
                Member(f"bench-{run}-{number}", stack.enter_context(BlockingConnection(server.host, server.port)))
                for _ in range(MEMBERS_PER_GROUP)
            ]
            for number in range(GROUPS)
        ]
        form_groups(groups, topic)
        rebalance(groups, topic, b"warm")
        with meter.running(server):
            seconds = [rebalance(groups, topic, b"%d" % number) for number in range(scale.rebalances)]
    return {"rebalance": median(seconds), "rebalance.cpu": meter.seconds / scale.rebalances}


def form_groups(groups: list[list[Member]], topic: str) -> None:
    for members in groups:
        _wait_for_coordinator(members[0])
    subscription = encode_subscription(topic, b"first")
    for member in itertools.chain(*groups):
        member.send_join(subscription)
    for member in itertools.chain(*groups):
        response = member.receive()
        # A member without an id is told one, and to come again with it.
        require(response.error_code, "join", ErrorCode.MEMBER_ID_REQUIRED)
        member.member_id = response.member_id
    rebalance(groups, topic, b"second")


def rebalance(groups: list[list[Member]], topic: str, user_data: bytes) -> float:
    """Seconds from the first request to join until the last member has its assignment."""
    subscription = encode_subscription(topic, user_data)
    started = time.perf_counter()
    for member in itertools.chain(*groups):
        member.send_join(subscription)
    for members in groups:
        answers = [member.receive() for member in members]
        for member, answer in zip(members, answers, strict=True):
            require(answer.error_code, "join")
            member.generation = answer.generation_id
        for member, answer in zip(members, answers, strict=True):
            member.send_sync(assign(topic, members) if answer.leader == member.member_id else [])
    for members in groups:
        assigned = [member.receive() for member in members]
        for answer in assigned:
            require(answer.error_code, "sync")
        if any(not answer.assignment for answer in assigned):
            raise BenchError("a member has no assignment")
    seconds = time.perf_counter() - started
    _require_stable(groups)
    return seconds


def assign(topic: str, members: list[Member]) -> list[SyncGroupRequestAssignment]:
    return [
        SyncGroupRequestAssignment(
            member_id=member.member_id,
            assignment=encode_assignment(topic, list(range(number, PARTITIONS, len(members)))),
        )
        for number, member in enumerate(members)
    ]


def _require_stable(groups: list[list[Member]]) -> None:
    for member in itertools.chain(*groups):
        beat = HeartbeatRequest(group_id=member.group, generation_id=member.generation, member_id=member.member_id)
        require(member.connection.request(beat, HEARTBEAT_VERSION).error_code, "heartbeat")


def _wait_for_coordinator(member: Member) -> None:
    """The first group of all lets the broker create the topic of the offsets."""
    request = FindCoordinatorRequest(coordinator_keys=[member.group])
    beat = HeartbeatRequest(group_id=member.group, member_id="nobody")
    not_yet = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        [found] = member.connection.request(request, FIND_COORDINATOR_VERSION).coordinators
        if found.error_code == 0 and member.connection.request(beat, HEARTBEAT_VERSION).error_code not in not_yet:
            return
        time.sleep(0.05)
    raise BenchError(f"{member.group} has no coordinator")


def require(error_code: int, what: str, allowed: ErrorCode = ErrorCode.NONE) -> None:
    if error_code not in (0, allowed):
        raise BenchError(f"a {what} was answered with {ErrorCode(error_code).name}")
