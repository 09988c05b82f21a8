"""An index of ACLs that follows another one costs what has changed."""

from __future__ import annotations

import pytest

from penstock.security.acls.index import Acl, AclIndex, Asked
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType

TOPIC = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
OTHER = ResourcePattern(ResourceType.TOPIC, "payments", PatternType.LITERAL)
PREFIX = ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED)


def rule(number: int) -> AclEntry:
    return AclEntry(f"User:u{number}", "*", Operation.READ, Permission.ALLOW)


RULES = tuple(map(rule, range(5)))


def found(index: AclIndex, number: int, pattern: ResourcePattern = TOPIC) -> Acl | None:
    return index.find(Asked(f"User:u{number}", "10.0.0.1", Operation.READ, ResourceType.TOPIC, pattern.name))[0]


@pytest.mark.parametrize("rules", [(*RULES, rule(9)), RULES[:2] + RULES[3:], (*RULES[:2], rule(9), *RULES[3:])])
def test_rules_of_others_are_taken_over_when_one_rule_of_a_resource_changes(rules: tuple[AclEntry, ...]) -> None:
    before = AclIndex({TOPIC: RULES, OTHER: RULES})
    index = AclIndex({TOPIC: rules, OTHER: RULES}, before)
    for pattern in (TOPIC, OTHER):
        for number in (0, 1, 3, 4):
            assert found(index, number, pattern) is found(before, number, pattern) is not None
    assert (found(index, 2) is not None) is (RULES[2] in rules)
    assert (found(index, 9) is not None) is (rule(9) in rules)
    assert (index.count, before.count) == (len(rules) + 5, 10)


def test_the_index_before_stays_as_it_was_when_resources_come_and_go() -> None:
    before = AclIndex({PREFIX: RULES, TOPIC: RULES[:1]})
    index = AclIndex({OTHER: RULES}, before)
    assert (found(index, 4), found(before, 4)) == (None, Acl(PREFIX, rule(4)))
    assert (found(index, 4, OTHER), found(before, 4, OTHER)) == (Acl(OTHER, rule(4)), None)
    again = AclIndex({OTHER: RULES, PREFIX: RULES}, index)
    assert found(again, 4) == Acl(PREFIX, rule(4))
    assert (index.count, before.count, again.count) == (5, 6, 10)
