"""The same histories on our registry and on Apicurio's: the same answers, but for the differences that are listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import penstock
from apicurio.server import ApicurioNode
from tests.interop.registry.differences import DIFFERENCES, justification
from tests.interop.registry.histories import Call, Histories
from tests.interop.registry.servers import Answer, ComparedServer

SEED, HISTORIES = 15, 100


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComparedServer]:
    with ApicurioNode(tmp_path_factory.mktemp("apicurio")) as node:
        server = ComparedServer(node.url)
        yield server
        server.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[ComparedServer]:
    with penstock.Broker() as broker, penstock.Registry(broker) as registry:
        server = ComparedServer(registry.url)
        yield server
        server.close()


def compare(calls: Iterator[Call], ours: ComparedServer, theirs: ComparedServer, seen: Counter[str]) -> list[str]:
    """What differs without a reason, up to the first such answer."""
    ours.begin()
    theirs.begin()
    log: list[tuple[Call, Answer]] = []
    for call in calls:
        if "{id}" in call.path and not (ours.knows_ids and theirs.knows_ids):
            continue
        answers = ours.ask(call), theirs.ask(call)
        log.append((call, answers[0]))
        if answers[0] == answers[1]:
            seen["alike"] += 1
            seen["refused alike" if answers[0].is_error else "taken alike"] += 1
            continue
        difference = justification(call, *answers)
        if difference is None:
            return [*map(str, log), f"ours:   {answers[0]}", f"theirs: {answers[1]}"]
        seen[difference.reason] += 1
        if difference.ends:
            break
    return []


@pytest.mark.timeout(
    600
)  # thousands of requests, one after the other: it took 164 s on a machine with little beside it
def test_histories_are_answered_as_by_the_second_registry(ours: ComparedServer, apicurio: ComparedServer) -> None:
    histories, seen = Histories(SEED), Counter[str]()
    for number in range(HISTORIES):
        unexplained = compare(histories.make(), ours, apicurio, seen)
        assert not unexplained, f"history {number}:\n" + "\n".join(unexplained)
    # The histories have reached what they are made for, and no listed difference is out of date.
    assert seen["alike"] > 10 * HISTORIES
    assert seen["refused alike"] > 2 * HISTORIES
    assert seen["taken alike"] > 5 * HISTORIES
    assert not [each.reason for each in DIFFERENCES if not seen[each.reason]]
