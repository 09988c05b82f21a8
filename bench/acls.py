"""Prints what a decision costs with 10,000 ACLs, kept and not, and what a change of one ACL costs.

`python -m bench.acls`. No broker runs: it is the authorizer that is measured, in this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.broker.acl_authorizer import AclAuthorizer
from penstock.broker.authorizer import AllowEverything, Operation, ResourceType
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


@dataclass(frozen=True, slots=True)
class Costs:
    index_ms: float  # built anew
    kept_us: float
    fresh_us: float
    without_us: float  # no authorizer
    changed_ms: float  # the first decision after one more ACL


def decision_costs() -> Costs:
    source = Source()
    started = time.perf_counter()
    authorizer = AclAuthorizer(source, source.config.authorization, SystemClock())
    index_ms = (time.perf_counter() - started) * 1e3
    context = RequestContext(Session("1", "10.0.0.1", "PLAINTEXT", Principal("User", "u7")), 0, 9, "bench")
    names = iter(f"team7-topic-{number}" for number in range(ROUNDS * 1_000))
    open_door = AllowEverything()
    kept = best_us(lambda: authorizer.is_allowed(context, READ, TOPIC, "team7-topic-7"), 100_000)
    fresh = best_us(lambda: authorizer.is_allowed(context, READ, TOPIC, next(names)), 1_000)
    without = best_us(lambda: open_door.is_allowed(context, READ, TOPIC, "team7-topic-7"), 100_000)
    source.add("new")
    started = time.perf_counter()
    authorizer.is_allowed(context, READ, TOPIC, "new")
    return Costs(index_ms, kept, fresh, without, (time.perf_counter() - started) * 1e3)


def main() -> None:
    costs = decision_costs()
    print(f"index of {ACLS:,} ACLs, built anew: {costs.index_ms:.1f} ms")
    print(
        f"decision: kept {costs.kept_us:.2f} us, not kept {costs.fresh_us:.1f} us; "
        f"without an authorizer {costs.without_us:.2f} us"
    )
    print(f"first decision after one more ACL: {costs.changed_ms:.1f} ms")


if __name__ == "__main__":
    main()
