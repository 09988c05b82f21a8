"""May somebody do something, and which rule says so: asked of what brokers tell, decided as brokers decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.admin.state.configs import ConfigPlace
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import open_broker
from penstock.cli.access.security.acls import read_acls
from penstock.cli.access.security.policies import find_policies, read_values
from penstock.core.config.keys.authorization import PREFIX_TAGS_KEY, TAGS_KEY, split_principals
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import AclIndex, Asked
from penstock.security.acls.types import AclEntry, PatternType, ResourcePattern, ResourceType
from penstock.security.policies.policy import PolicyIndex, parse_stored
from penstock.security.policies.tags import parse_prefix_tags, tags_of
from penstock.security.rules import AccessDecision, Rules

_SUPER_USERS, _OPEN = "super.users", "allow.everyone.if.no.acl.found"


class Explained(NamedTuple):
    asked: Asked
    decision: AccessDecision
    tags: tuple[str, ...]
    notes: tuple[str, ...]  # what could not be found out


def explain_access(cluster: ClusterClient, asked: Asked, now_ms: int) -> Explained:
    acls: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    for pattern, entry in read_acls(cluster, [AclFilter(asked.kind, asked.name, PatternType.MATCH)]):
        acls[pattern] = (*acls.get(pattern, ()), entry)
    with open_broker(cluster) as broker:
        nodes = broker.request(DescribeClusterRequest(), DescribeClusterResponse)
        settings: Mapping[str, str] = {}
        if nodes.error_code == ErrorCode.NONE and nodes.brokers:
            # A broker tells its own settings alone, and this one may be any of them.
            for node in nodes.brokers:
                keys = (_SUPER_USERS, _OPEN, PREFIX_TAGS_KEY)
                found = read_values(broker, [ConfigPlace.broker(node.broker_id)], keys)
                settings = next(iter(found.values()), settings)
        policies = find_policies(broker) or {}
        places = [ConfigPlace.topic(asked.name)] if asked.kind is ResourceType.TOPIC else []
        topic = read_values(broker, places, [TAGS_KEY])
    notes = [f"the broker does not tell {key}" for key in (_SUPER_USERS, _OPEN) if key not in settings]
    prefix_tags = parse_prefix_tags(part for part in settings.get(PREFIX_TAGS_KEY, "").split(",") if part)
    tags = tags_of(asked.name, topic.get(asked.name, {}), prefix_tags) if asked.kind is ResourceType.TOPIC else ()
    parsed, faults = parse_stored(policies)
    rules = Rules(
        AclIndex(acls),
        PolicyIndex(parsed),
        frozenset(split_principals(settings.get(_SUPER_USERS, ""))),
        settings.get(_OPEN, "") == "true",
    )
    return Explained(asked, rules.decide(asked, tags, now_ms), tags, (*notes, *faults))
