"""The authorizer with ACLs: the rules of `penstock.security.rules` decide, on the image that the broker serves.

The cache keeps decisions by principal, address, operation and resource, so a client that logs in anew does not meet the
decisions of its former principal. The cache is cleared with each image that has other rules, and when a policy begins
or ends.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from penstock.broker.authorizer import AllowEverything, Authorizer
from penstock.broker.session import Principal, RequestContext, shorten
from penstock.cluster.image import MetadataImage, settings_with_tags
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.keys.authorization import split_principals
from penstock.core.config.sections import AuthorizationSection
from penstock.protocol.api_names import API_NAMES
from penstock.security.acls.index import AclIndex, Asked
from penstock.security.acls.types import Operation, ResourceType, camel_case
from penstock.security.audit.events import NO_AUDIT, AuditEvent, AuditKind, Auditor
from penstock.security.policies.policy import PolicyIndex, parse_stored
from penstock.security.policies.tags import PREFIX_TAGS_KEY, parse_prefix_tags, tags_of
from penstock.security.rules import AccessDecision, Rules

logger = logging.getLogger("penstock.broker.authorizer")

# The number of cached decisions. Clients choose the names, so number and length have a bound: 512 characters of four
# bytes each make 10 MB at most. The cache has two halves: when the younger half is full it becomes the older half, and
# a requested entry moves back. So a client that asks for ever new names, or for all topics of a large cluster, does not
# push out the entries that other clients use all the time.
MAX_DECISIONS = 5_000
_LONGEST_KEPT = 512


class ImageSource(Protocol):
    """The source of the newest image and of the configuration in effect: the metadata's publisher."""

    image: MetadataImage
    config: BrokerConfig


class _Settings(NamedTuple):
    super_users: frozenset[str]
    is_open_without_acls: bool


_Key = tuple[Principal, str, Operation, ResourceType, str]


class AclAuthorizer:
    has_rules = True

    __slots__ = (
        "_clock",
        "_config",
        "_decisions",
        "_expires_ms",
        "_image",
        "_older_decisions",
        "_prefix_tags",
        "_rules",
        "_settings",
        "_source",
        "auditor",
    )

    def __init__(
        self, source: ImageSource, section: AuthorizationSection, clock: Clock, auditor: Auditor = NO_AUDIT
    ) -> None:
        self._source = source
        self._settings = _Settings(
            frozenset(split_principals(section.super_users)), section.allow_everyone_if_no_acl_found
        )
        self._clock = clock
        self.auditor = auditor
        self._decisions: dict[_Key, AccessDecision] = {}
        self._older_decisions: dict[_Key, AccessDecision] = {}
        self._expires_ms: int | None = None  # the begin or end of a policy on which a cached decision rests
        self._image: MetadataImage = source.image
        self._config = source.config
        self._prefix_tags: Mapping[str, tuple[str, ...]] = {}
        self._rules = self._read_rules()

    def is_allowed(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Costs 0.2 us for a cached decision, and 10 us with 10,000 ACLs otherwise. A cache for each session would have
        to be emptied in many places. Measured by `python -m bench.acls`.
        """
        session = context[0]
        decision = None
        if self._source.image is self._image and self._expires_ms is None:
            decision = self._decisions.get((session.principal, session.client_host, operation, kind, name))
        if decision is None:
            decision = self._decide(context, operation, kind, name)
        if decision[0]:
            return True
        self._tell(context, operation, kind, name, decision)
        return False

    def would_allow(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self._decide(context, operation, kind, name)[0]

    def is_allowed_anywhere(self, context: RequestContext, operation: Operation, kind: ResourceType) -> bool:
        """Not cached: producers ask once in their lives."""
        self._follow()
        session = context.session
        principal = str(session.principal)
        decision = self._rules.decide_anywhere(principal, session.client_host, operation, kind, self._clock.now_ms())
        if not decision.is_allowed:
            self._tell(context, operation, kind, "*", decision)
        return decision.is_allowed

    def is_super_user(self, principal: Principal) -> bool:
        return str(principal) in self._settings.super_users

    def decide(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> AccessDecision:
        """The decision with the rule that made it."""
        return self._decide(context, operation, kind, name)

    def _decide(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> AccessDecision:
        self._follow()
        session = context.session
        key = (session.principal, session.client_host, operation, kind, name)
        decision = self._decisions.get(key)
        if decision is not None:
            return decision
        decision = self._older_decisions.get(key)
        if decision is not None:
            self._keep(key, decision)
            return decision
        principal = str(session.principal)
        asked = Asked(principal, session.client_host, operation, kind, name)
        rules = self._rules
        if rules.policies and kind is ResourceType.TOPIC:
            decision = rules.decide(asked, self._tags_of(name), self._clock.now_ms())
        else:
            decision = rules.decide(asked)
        if len(name) + len(principal) <= _LONGEST_KEPT:
            self._keep(key, decision)
        return decision

    def _keep(self, key: _Key, decision: AccessDecision) -> None:
        if len(self._decisions) >= MAX_DECISIONS // 2:
            self._older_decisions, self._decisions = self._decisions, {}
        self._decisions[key] = decision
        until_ms = decision.valid_until_ms
        if until_ms is not None and (self._expires_ms is None or until_ms < self._expires_ms):
            self._expires_ms = until_ms

    def _forget(self) -> None:
        self._decisions.clear()
        self._older_decisions.clear()
        self._expires_ms = None

    def _follow(self) -> None:
        """Drops the decisions that the newest image, or the time, makes untrue."""
        image = self._source.image
        if image is not self._image:
            old, self._image = self._image, image
            old_config, self._config = self._config, self._source.config
            if old.security.acls is not image.security.acls or old.security.policies is not image.security.policies:
                self._rules = self._read_rules(self._rules.acls)
                self._forget()
            elif self._rules.policies and (
                old.topics is not image.topics
                or old.security.entity_configs is not image.security.entity_configs
                or old_config is not self._config
            ):
                self._prefix_tags = _prefix_tags(self._config)
                self._forget()
        if self._expires_ms is not None and self._clock.now_ms() >= self._expires_ms:
            self._forget()

    def _read_rules(self, before: AclIndex | None = None) -> Rules:
        security = self._image.security
        policies, faults = parse_stored(security.policies)
        for fault in faults:
            logger.error("a policy cannot be read, so it denies its tag: %s", fault)
        self._prefix_tags = _prefix_tags(self._config)
        return Rules(AclIndex(security.acls, before), PolicyIndex(policies), *self._settings)

    def _tags_of(self, name: str) -> tuple[str, ...]:
        return tags_of(name, settings_with_tags(self._image, name), self._prefix_tags)

    def _tell(
        self, context: RequestContext, operation: Operation, kind: ResourceType, name: str, decision: AccessDecision
    ) -> None:
        if AuditKind.DENIAL not in self.auditor.kinds:
            return
        session = context.session
        self.auditor.record(
            AuditEvent(
                AuditKind.DENIAL,
                API_NAMES[context.api_key],
                False,
                str(session.principal),
                session.client_host,
                context.client_id,
                f"{camel_case(kind)}:{shorten(name) if len(name) > _LONGEST_KEPT else name}",
                camel_case(operation),
                decision.rule,
            )
        )


def _prefix_tags(config: BrokerConfig) -> Mapping[str, tuple[str, ...]]:
    elements = config.get(PREFIX_TAGS_KEY)
    assert isinstance(elements, tuple)
    return parse_prefix_tags(elements)


def make_authorizer(
    source: ImageSource, section: AuthorizationSection, clock: Clock, auditor: Auditor = NO_AUDIT
) -> Authorizer:
    if not section.authorizer_class_name:
        return AllowEverything()
    return AclAuthorizer(source, section, clock, auditor)
