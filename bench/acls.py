"""Prints what a decision costs with 10,000 ACLs, kept and not, and what a change of one ACL costs.

`python -m bench.acls`. No broker runs: it is the authorizer that is measured, in this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from penstock.broker.authorizer import AclAuthorizer, AllowEverything, Operation, ResourceType
from penstock.broker.session import Principal, RequestContext, Session
from penstock.cluster.image import MetadataImage
from penstock.cluster.security_image import SecurityImage
from penstock.core.clock import SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.security.acls.types import AclEntry, PatternType, Permission, ResourcePattern

ACLS = 10_000
ROUNDS = 5
READ, TOPIC = Operation.READ, ResourceType.TOPIC


class Source:
    def __init__(self) -> None:
        self.config = BrokerConfig.parse({"authorizer.class.name": STANDARD_AUTHORIZER})
        self.image = MetadataImage("bench", security=SecurityImage(acls=make_acls()))

    def add(self, name: str) -> None:
        acls = {**self.image.security.acls, ResourcePattern(TOPIC, name): (allow("User:new"),)}
        self.image = replace(self.image, security=self.image.security._replace(acls=acls))


def allow(principal: str) -> AclEntry:
    return AclEntry(principal, "*", READ, Permission.ALLOW)


def make_acls() -> dict[ResourcePattern, tuple[AclEntry, ...]]:
    """A third of them prefixes; 500 users."""
    kinds = (PatternType.PREFIXED, PatternType.LITERAL, PatternType.LITERAL)
    return {
        ResourcePattern(TOPIC, f"team{number % 100}-topic-{number}", kinds[number % 3]): (
            allow(f"User:u{number % 500}"),
        )
        for number in range(ACLS)
    }


def best_us(call: Callable[[], object], count: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, time.perf_counter() - started)
    return best / count * 1e6


def main() -> None:
    source = Source()
    started = time.perf_counter()
    authorizer = AclAuthorizer(source, source.config.authorization, SystemClock())
    print(f"index of {ACLS:,} ACLs, built anew: {(time.perf_counter() - started) * 1e3:.1f} ms")
    context = RequestContext(Session("1", "10.0.0.1", "PLAINTEXT", Principal("User", "u7")), 0, 9, "bench")
    names = iter(f"team7-topic-{number}" for number in range(ROUNDS * 1_000))
    open_door = AllowEverything()
    kept = best_us(lambda: authorizer.is_allowed(context, READ, TOPIC, "team7-topic-7"), 100_000)
    fresh = best_us(lambda: authorizer.is_allowed(context, READ, TOPIC, next(names)), 1_000)
    without = best_us(lambda: open_door.is_allowed(context, READ, TOPIC, "team7-topic-7"), 100_000)
    print(f"decision: kept {kept:.2f} us, not kept {fresh:.1f} us; without an authorizer {without:.2f} us")
    source.add("new")
    started = time.perf_counter()
    authorizer.is_allowed(context, READ, TOPIC, "new")
    print(f"first decision after one more ACL: {(time.perf_counter() - started) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
