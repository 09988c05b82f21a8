"""Policies on tags: their settings, and which of them apply.

A topic bears tags (its setting `penstock.tags`, and those of `penstock.tags.by.prefix`). A policy allows or denies
operations on all topics with one tag: to some principals or to all, at some time or always, from some addresses or from
anywhere. A policy that cannot be read denies its tag, so that a mistake gives no client more rights.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.core.config.keys.authorization import TAG_WORDS, is_tag
from penstock.security.acls.index import ANYBODY, Asked, allows, denies
from penstock.security.acls.types import WILDCARD, Operation, ResourceType, camel_case
from penstock.security.addresses import canonical_host

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# The settings of a policy, as they are stored and travel.
TAG, EFFECT, PRINCIPALS, OPERATIONS = "tag", "effect", "principals", "operations"
FROM, UNTIL, ADDRESSES = "from", "until", "addresses"
KEYS = (TAG, EFFECT, PRINCIPALS, OPERATIONS, FROM, UNTIL, ADDRESSES)
LISTS = (PRINCIPALS, OPERATIONS, ADDRESSES)
ALLOW, DENY = "allow", "deny"

# The operations on a topic.
TOPIC_OPERATIONS = (
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_OPERATIONS = {camel_case(operation).lower(): operation for operation in TOPIC_OPERATIONS}

# A name is a key of the store and a word in the audit trail.
_LONGEST_NAME = 100


class PolicyError(ValueError):
    """The policy is invalid. The message says what would be accepted."""


class Policy(NamedTuple):
    name: str
    tag: str
    is_deny: bool
    principals: frozenset[str]  # `User:*` is every principal
    operations: tuple[Operation, ...]
    from_ms: int | None = None
    until_ms: int | None = None  # the policy ends at this time
    addresses: tuple[Network, ...] = ()  # none: from anywhere

    def __str__(self) -> str:
        words = ", ".join(camel_case(operation) for operation in self.operations)
        return f"policy {self.name}: {DENY if self.is_deny else ALLOW} {words} on tag {self.tag}"

    def holds(self, now_ms: int) -> bool:
        return (self.from_ms is None or self.from_ms <= now_ms) and (self.until_ms is None or now_ms < self.until_ms)

    def concerns(self, asked: Asked) -> bool:
        """Whether the policy is about this client and this operation, whatever the time and the tag."""
        if asked.principal not in self.principals and ANYBODY not in self.principals:
            return False
        if not any((denies if self.is_deny else allows)(each, asked.operation) for each in self.operations):
            return False
        return not self.addresses or _is_in(asked.host, self.addresses)

    def next_change_ms(self, now_ms: int) -> int | None:
        """When the policy next begins or ends to hold, if ever."""
        times = [time for time in (self.from_ms, self.until_ms) if time is not None and time > now_ms]
        return min(times, default=None)


def _is_in(host: str, networks: Iterable[Network]) -> bool:
    try:
        address = ipaddress.ip_address(canonical_host(host))
    except ValueError:
        return False
    return any(address in network for network in networks)


class PolicyIndex:
    """Policies by tag."""

    __slots__ = ("_by_tag", "_policies")

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self._policies = tuple(policies)
        self._by_tag: dict[str, list[Policy]] = {}
        for policy in self._policies:
            self._by_tag.setdefault(policy.tag, []).append(policy)

    def __bool__(self) -> bool:
        return bool(self._policies)

    def find(self, asked: Asked, tags: Iterable[str], now_ms: int) -> tuple[Policy | None, Policy | None, int | None]:
        """The policy that denies, the policy that allows, and the time at which either may change."""
        denying: Policy | None = None
        allowing: Policy | None = None
        changes_ms: int | None = None
        if asked.kind is not ResourceType.TOPIC:
            return None, None, None
        for tag in tags:
            for policy in self._by_tag.get(tag, ()):
                change_ms = policy.next_change_ms(now_ms)
                if change_ms is not None and (changes_ms is None or change_ms < changes_ms):
                    changes_ms = change_ms
                if not policy.holds(now_ms) or not policy.concerns(asked):
                    continue
                if policy.is_deny:
                    denying = denying or policy
                else:
                    allowing = allowing or policy
        return denying, allowing, changes_ms

    def find_allowing(self, asked: Asked, now_ms: int) -> Policy | None:
        """A policy that allows the operation on topics with its tag, even if no topic has the tag."""
        for policy in self._policies:
            if not policy.is_deny and policy.holds(now_ms) and policy.concerns(asked):
                return policy
        return None


# ------------------------------------------------------------------------------------------------- settings


def check_policy_name(name: str) -> None:
    """Raises PolicyError."""
    if not name or len(name) > _LONGEST_NAME or not all(each.isalnum() or each in "-_." for each in name):
        what = f"1 to {_LONGEST_NAME} letters, digits, dots, dashes and underscores"
        raise PolicyError(f"the name of a policy must be {what}")
    if not name.isascii() or set(name) == {"."}:
        raise PolicyError("the name of a policy must be of ASCII letters, and not dots alone")


def parse_policy(name: str, settings: Mapping[str, str]) -> Policy:
    """Raises PolicyError."""
    check_policy_name(name)
    unknown = [key for key in settings if key not in KEYS]
    if unknown:
        raise PolicyError(f"a policy has no setting {unknown[0]}; there are {', '.join(KEYS)}")
    for key in (TAG, EFFECT):
        if not settings.get(key):
            raise PolicyError(f"a policy needs {TAG} and {EFFECT}")
    effect = settings[EFFECT].strip().lower()
    if effect not in (ALLOW, DENY):
        raise PolicyError(f"the effect of a policy is {ALLOW} or {DENY}")
    from_ms, until_ms = _parse_time(FROM, settings), _parse_time(UNTIL, settings)
    if from_ms is not None and until_ms is not None and until_ms <= from_ms:
        raise PolicyError("the policy would end before it begins")
    tag = settings[TAG].strip()
    if not is_tag(tag):
        raise PolicyError(f"a tag is {TAG_WORDS}")
    return Policy(
        name,
        tag,
        effect == DENY,
        frozenset(map(_parse_principal, _words(settings, PRINCIPALS) or (WILDCARD,))),
        tuple(map(_parse_operation, _words(settings, OPERATIONS) or ("All",))),
        from_ms,
        until_ms,
        tuple(map(_parse_network, _words(settings, ADDRESSES))),
    )


def parse_stored(policies: Mapping[str, Mapping[str, str]]) -> tuple[list[Policy], list[str]]:
    """All policies of the store, and the faults of those that this version cannot read.

    An unreadable policy must not be silently void: it denies its tag to every client, where it has a tag.
    """
    parsed, faults = [], []
    for name, settings in policies.items():
        try:
            parsed.append(parse_policy(name, settings))
        except PolicyError as error:
            faults.append(f"policy {name}: {error}")
            if tag := settings.get(TAG, "").strip():
                parsed.append(Policy(name, tag, True, frozenset((ANYBODY,)), (Operation.ALL,)))
    return parsed, faults


def _words(settings: Mapping[str, str], key: str) -> list[str]:
    return [word for part in settings.get(key, "").split(",") if (word := part.strip())]


def _parse_principal(text: str) -> str:
    if text == WILDCARD:
        return ANYBODY
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise PolicyError(f"expected a principal like User:alice, or *, but got {text}")
    return text


def _parse_operation(text: str) -> Operation:
    operation = _OPERATIONS.get(text.replace("_", "").lower())
    if operation is None:
        names = ", ".join(camel_case(each) for each in TOPIC_OPERATIONS)
        raise PolicyError(f"{text} is no operation on topics; there are {names}")
    return operation


def _parse_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise PolicyError(f"{text} is neither an address nor a range like 10.0.0.0/8") from None


def _parse_time(key: str, settings: Mapping[str, str]) -> int | None:
    text = settings.get(key, "").strip()
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise PolicyError(f"{key}: {text} is no time like 2026-01-31T08:00:00Z") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1000)
